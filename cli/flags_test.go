package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Flags that exclude each other are refused before any read or prompt.
func TestFlagsThatDoNotGoTogether(t *testing.T) {
	path := applySale(t, "tickets")
	folder := t.TempDir()
	plan := filepath.Join(folder, "tickets.plan")
	if code := newCapture().run([]string{"salectl", "plan", "-f", path, "--destroy", "--out", plan}, nil); code != 0 {
		t.Fatalf("plan: exit code %d", code)
	}
	ca := filepath.Join(folder, "ca.pem")
	if err := os.WriteFile(ca, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const server, position = "http://127.0.0.1:1", "now"
	for _, c := range []struct{ line, says string }{
		{"audit --export x --sale tickets", "--sale cannot be combined with --export"},
		{"audit --export x -f " + path, "-f cannot be combined with --export"},
		{"audit --export x --selector a=b", "--selector cannot be combined with --export"},
		{"audit --export x --report y", "--report cannot be combined with --export"},
		{"audit --export x --threshold sold==1", "--threshold cannot be combined with --export"},
		{"audit --export x --timeout 1s", "--timeout cannot be combined with --export"},
		{"audit --export x --user ada", "--user cannot be combined with --export"},
		{"audit --export x --unit 1", "--unit cannot be combined with --export"},
		{"audit --export x --state sold", "--state cannot be combined with --export"},
		{"audit --units-key-file x -f " + path, "--units-key-file requires --export"},
		{"show tickets", "unexpected argument \"tickets\", which is not a saved plan; name a sale with --sale: salectl show --sale tickets"},
		{"show -f " + path + " --markdown", "--markdown is for a saved plan"},
		{"plan --json --markdown", "--json and --markdown are two formats"},
		{"plan --title x", "--title is for --markdown"},
		{"draw verify x --key k", "--key needs --user"},
		{"draw reveal --beacon 00 --fallback", "--fallback is for a beacon without a value"},
		{"export --from " + position, "--from needs --follow"},
		{"export --commits", "--commits needs --follow"},
		{"export --follow --out x", "--out cannot be combined with --follow"},
		{"export --follow --csv", "--csv cannot be combined with --follow"},
		{"export --follow --redact-keys", "--redact-keys cannot be combined with --follow"},
		{"export --follow --user ada", "--user cannot be combined with --follow"},
		{"export --follow --unit 1", "--unit cannot be combined with --follow"},
		{"export --follow --state sold", "--state cannot be combined with --follow"},
		{"export --redact-keys --csv", "--redact-keys is for whole exports"},
		{"export --redact-keys --user ada", "--redact-keys is for whole exports"},
		{"status --interval 1s", "--interval stands beside --watch"},
		{"status --watch --wait-for open", "--watch runs until Ctrl-C"},
		{"status --watch --exit-code", "--watch runs until Ctrl-C"},
		{"status --admin " + server + " --tls-ca " + ca, "--tls-ca, --tls-cert and --tls-key need a URL that begins with https"},
		{"claim --server " + server + " --sale s --user u --unit a --quantity 2", "--unit names the units to buy"},
		{"claim --server " + server + " --sale s --user u --unit a --adjacent", "--unit names the units to buy"},
		{"claim --server " + server + " --sale s --user u --tls-ca " + ca, "--tls-ca, --tls-cert and --tls-key need a URL that begins with https"},
		{"claims list --server " + server + " --sale s --user u --tls-cert x --tls-key y", "need a URL that begins with https"},
		{"claims get --server " + server + " --sale s --claim 0-1-0 --tls-ca " + ca, "need a URL that begins with https"},
		{"claims confirm --server " + server + " --sale s --claim 0-1-0 --payment p --tls-ca " + ca, "need a URL that begins with https"},
		{"claims refund --admin " + server + " --sale s --claim 0-1-0 --reason r --tls-ca " + ca, "need a URL that begins with https"},
		{"drain --admin " + server + " --tls-ca " + ca, "need a URL that begins with https"},
		{"serve --tls-cert x", "--tls-cert and --tls-key require each other"},
		{"serve --tls-client-ca x", "--tls-client-ca needs --tls-cert and --tls-key"},
	} {
		out := newCapture()
		if code := out.run(append([]string{"salectl"}, strings.Fields(c.line)...), nil); code != exitUsage || !strings.Contains(out.err.String(), c.says) {
			t.Errorf("salectl %s: exit code %d, want %q in\n%s", c.line, code, c.says, &out.err)
		}
	}
}
