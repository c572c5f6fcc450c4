{{- /* The release's name is that of the objects; one that lacks the chart's name has it added. */}}
{{- define "lvm-csi.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "lvm-csi.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "lvm-csi.labels" -}}
{{ include "lvm-csi.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ .Chart.Name }}
{{- end }}

{{- define "lvm-csi.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "lvm-csi.pluginDir" -}}
{{ .Values.kubeletDir }}/plugins/{{ .Values.driverName }}
{{- end }}

{{- define "lvm-csi.check" -}}
{{- /* The longer of the two: with a name that fits it, the CSI socket fits as well. */}}
{{- $socket := printf "%s/plugins_registry/%s-reg.sock" .Values.kubeletDir .Values.driverName -}}
{{- if gt (len $socket) 107 -}}
{{- fail (printf "the socket %s is %d bytes long, and a Unix socket's path holds 107: shorten kubeletDir or driverName" $socket (len $socket)) -}}
{{- end -}}
{{- end }}
