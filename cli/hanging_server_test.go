package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"salectl/internal/wait"
)

// hangingServer passes requests on to a server. From a request on, it answers none.
type hangingServer struct {
	*httptest.Server
	made, from atomic.Int64 // from 0: it answers all
}

// newHangingServer returns one before the server at address.
func newHangingServer(t *testing.T, address string) *hangingServer {
	to, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	h, proxy := &hangingServer{}, httputil.NewSingleHostReverseProxy(to)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, from := h.made.Add(1), h.from.Load(); from != 0 && n >= from {
			io.Copy(io.Discard, r.Body) // the server notices a closed connection behind the body
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

var adminAt = regexp.MustCompile(`msg=listening url=\S+ admin=(\S+)`)

// startServing starts a process that serves the sale at path, and returns its addresses.
func startServing(t *testing.T, path string) (buyers, admin string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command("salectl", "serve", "-f", path, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	cmd.Stderr = file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	wait.Until(t, "the process listens", func() bool {
		text, _ := os.ReadFile(log)
		if b, a := listeningAt.FindSubmatch(text), adminAt.FindSubmatch(text); b != nil && a != nil {
			buyers, admin = string(b[1]), string(a[1])
		}
		return admin != ""
	})
	return buyers, admin
}

// runProgram runs a command that is to end by itself, and returns its exit code and output.
func runProgram(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "salectl", args...)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("salectl %s does not end:\n%s", strings.Join(args, " "), out)
	}
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// Each command that sends requests to a server ends in its time whichever request is the first
// without a response, and reports that.
func TestWhicheverRequestHangs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sale.yaml")
	text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\n" +
		"spec: {stock: 100, lockCount: 4, perUserLimit: 100, lock: {ttl: 2s}, embedded: {}, payment: {holdFor: 1h}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	succeeds := func(t *testing.T, args ...string) string {
		t.Helper()
		code, output := runProgram(t, args...)
		if code != exitOK {
			t.Fatalf("salectl %s: exit code %d\n%s", strings.Join(args, " "), code, output)
		}
		return output
	}
	succeeds(t, "apply", "-f", path, "--yes")
	buyers, admin := startServing(t, path)
	startServing(t, path) // which takes the shards of the first
	server, operated := newHangingServer(t, buyers), newHangingServer(t, admin)
	claim := func(t *testing.T) (id string) {
		t.Helper()
		var reply struct {
			Claim string `json:"claim"`
		}
		output := succeeds(t, "claim", "--server", buyers, "--sale", "tickets", "--user", "u", "--json")
		_, answer, _ := strings.Cut(output, "{") // behind what the command reports of answers that came late
		if err := json.Unmarshal([]byte("{"+answer), &reply); err != nil || reply.Claim == "" {
			t.Fatalf("%v: %s", err, output)
		}
		return reply.Claim
	}
	held := claim(t)
	none := func(*testing.T) {}
	for _, c := range []struct {
		command string
		through *hangingServer
		before  func(t *testing.T)
	}{
		{"claim --server SERVER --sale tickets --user u", server, none},
		{"claims list --server SERVER --sale tickets --user u", server, none},
		{"claims get --server SERVER --sale tickets --claim " + held, server, none},
		{"claims confirm --server SERVER --sale tickets --payment p --claim " + held, server, none},
		{"drain --admin ADMIN", operated, func(t *testing.T) { succeeds(t, "drain", "--undo", "--admin", admin) }},
		{"drain --admin ADMIN --sale tickets", operated, func(t *testing.T) { succeeds(t, "drain", "--undo", "--admin", admin) }},
		{"drain --undo --admin ADMIN", operated, func(t *testing.T) { succeeds(t, "drain", "--admin", admin) }},
	} {
		t.Run(c.command, func(t *testing.T) {
			line := strings.NewReplacer("SERVER", server.URL, "ADMIN", operated.URL).Replace(c.command)
			args := strings.Fields(line)
			run := func(from int64, timeout string) (code int, output string, made int64) {
				c.before(t)
				c.through.made.Store(0)
				c.through.from.Store(from)
				code, output = runProgram(t, append(slices.Clone(args), "--timeout", timeout)...)
				return code, output, c.through.made.Load()
			}
			code, output, requests := run(0, "1m")
			if code != exitOK || requests == 0 {
				t.Fatalf("exit code %d after %d requests\n%s", code, requests, output)
			}
			for k := int64(1); k <= requests; k++ {
				code, output, made := run(k, "1s")
				if code == exitOK && made < k {
					break // it needed fewer requests this time
				}
				// A process without a shard is drained, whether it reports that it is ready or not.
				drained := code == exitOK && strings.Contains(output, "owns no shard. It cannot forward all requests: timed out")
				if code != exitTimeout && !drained || !strings.Contains(output, "after 1s") {
					t.Errorf("request %d of %d hangs: exit code %d\n%s", k, requests, code, output)
				}
			}
		})
	}
}
