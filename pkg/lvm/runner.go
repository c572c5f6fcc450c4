package lvm

import (
	"context"
	"encoding/json"
)

// Runner runs one command of the LVM tool set. The real one starts a process
// for each; lvmtest has a fake that keeps its own volume groups.
//
// args[0] is an lvm command ("lvcreate") or "dmsetup". The runner adds what
// makes lvm answer in JSON with its command log.
//
// The error says how the run itself went: nil when the command ran and told
// its outcome, however bad; ErrUnknown when it was started and its outcome was not
// learnt; anything else when it was not started.
//
// When ctx ends the command is killed, so only reports are given one that ends. Run returns when the command is gone, and a
// dead disk can hold even a killed one for ever: callers that must not hang wait elsewhere.
type Runner interface {
	Run(ctx context.Context, args ...string) (Output, error)
}

// Output is what one lvm command answered.
type Output struct {
	Report []json.RawMessage // the JSON objects under "report": one per VG, in a full report
	Log    []Message         // its command log, in order
	Code   int               // its exit status; lvm's success is 0 as a process
}

// Message is one entry of LVM's command log (lvmreport(7), "COMMAND LOG REPORT").
type Message struct {
	Type    string `json:"log_type"`         // "status", "error", "warn", "print"
	Context string `json:"log_context"`      // "processing", "shell"
	Object  string `json:"log_object_type"`  // "vg", "lv", "pv", "cmd"
	Name    string `json:"log_object_name"`  // without its VG
	Group   string `json:"log_object_group"` // the VG of an LV
	Text    string `json:"log_message"`
	Errno   string `json:"log_errno"`
	Code    string `json:"log_ret_code"`
}
