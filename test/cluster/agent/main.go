// Command agent runs programs on a node for the tests: POST /run with a JSON list of words in the header Words and the
// standard input as the body. The answer is what the program printed; its exit status is in the trailer Status.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
)

func main() {
	http.HandleFunc("POST /run", run)
	fmt.Println(http.ListenAndServe(":7777", nil)) //nolint:gosec // tests cancel what takes too long
	os.Exit(1)
}

func run(w http.ResponseWriter, r *http.Request) {
	var words []string
	if err := json.Unmarshal([]byte(r.Header.Get("Words")), &words); err != nil || len(words) == 0 || r.Header.Get("Token") != os.Getenv("AGENT_TOKEN") {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	w.Header().Set("Trailer", "Status")
	cmd := exec.CommandContext(r.Context(), words[0], words[1:]...) //nolint:gosec // that is what it is for
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Body, w, w
	err := cmd.Run()
	status := cmd.ProcessState.ExitCode()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(w, err)
		status = 127
	}
	w.Header().Set("Status", strconv.Itoa(status))
}
