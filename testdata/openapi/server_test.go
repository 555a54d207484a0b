// Package openapi holds api/openapi.yaml against a server: TestAnswers calls every operation
// and provokes every answer that the document declares, and package client is a client that was
// generated from it. It is a module of its own, so that the validator and the generator are no
// dependencies of salectl.
package openapi

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The tokens of a server that has some.
const (
	claimToken   = "token-of-the-shop"
	confirmToken = "token-of-the-payments"
	operateToken = "token-of-the-operators"
)

// webhookKey is the base64 of the key that payment services sign with.
const webhookKey = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// The sales: one whose claims are paid; one of which one claim may wait; one that has not
// opened; and one to be destroyed. No lease ends where the machine is busy.
var sales = map[string]string{
	"paid": `
spec:
  stock: 1000000
  lockCount: 1
  perUserLimit: 3
  payment:
    holdFor: 1h
    extendBy: 1h
    webhook:
      secretsEnv: WEBHOOK_SECRETS
      success: event.type == "paid"
      claim: event.claim
      payment: event.id
  lock: {ttl: 10s}
  embedded: {}
`,
	"busy": "\nspec: {stock: 1000000, lockCount: 1, perUserLimit: 1000000, queue: {depth: 1}, lock: {ttl: 10s}, embedded: {}}\n",
	"soon": "\nspec: {stock: 10, lockCount: 1, opensAt: 2999-01-01T00:00:00Z, lock: {ttl: 10s}, embedded: {}}\n",
	"gone": "\nspec: {stock: 10, lockCount: 1, lock: {ttl: 10s}, embedded: {}}\n",
}

// server is a process that serves the sales from a folder of its own.
type server struct {
	dir           string
	buyers, admin string // URLs
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaries, "salectl")
	c := exec.Command("go", "build", "-o", path, ".")
	c.Dir = "../.."
	c.Stderr = os.Stderr
	return path, c.Run()
})

var binaries string // a folder that outlives single tests

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if binaries, err = os.MkdirTemp("", "openapi"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(binaries)
		return m.Run()
	}())
}

// command is salectl in the server's folder.
func (s *server) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(path, args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "WEBHOOK_SECRETS=whsec_"+webhookKey)
	return c
}

// run runs salectl to its end.
func (s *server) run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := s.command(t, args...).CombinedOutput(); err != nil {
		t.Fatalf("salectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// start applies the sales in a new folder and serves them, until the test ends.
func start(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{dir: t.TempDir()}
	for name, spec := range sales {
		s.write(t, name+".yaml", "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: "+name+"}"+spec)
	}
	s.write(t, "tokens", claimToken+" claim\n"+confirmToken+" confirm\n"+operateToken+" operate\n")
	s.run(t, "apply", "--yes")

	c := s.command(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-format", "json"}, args...)...)
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	for s.admin == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the server has ended: %v, %v", err, c.Wait())
		}
		var entry struct{ Msg, URL, Admin string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			s.buyers, s.admin = entry.URL, entry.Admin
		}
	}
	rest := make(chan string)
	go func() { all, _ := io.ReadAll(lines); rest <- string(all) }()
	t.Cleanup(func() {
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		log := <-rest
		if err := c.Wait(); err != nil || strings.Contains(log, `"level":"ERROR"`) || strings.Contains(log, "panic") {
			t.Errorf("the server has ended with %v:\n%s", err, log)
		}
	})
	return s
}

func (s *server) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
