package replicas

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor/peers"
	"salectl/internal/services"
)

// Clients that others have written, and that know nothing of processes, get along when
// processes end and when one is killed: what a program in Python and wrk were told is in
// the export, each claim once.
func TestForeignClients(t *testing.T) {
	s := apply(t, embedded, terms{stock: 1_000_000, shards: 12, ttl: killTTL})
	all := s.three()
	python, wrks := s.python(40), s.wrk()
	for _, r := range all {
		python.some(20)
		r.stop()
		r.start()
		r.ready()
		s.settled()
	}
	python.some(20)
	all[1].kill()
	s.settled()
	python.some(40)
	python.leave()
	s.Logf("Python: %d claims", len(python.answered()))
	s.booksWith(wrks(), python)
}

// python has a program in Python claim, so many times a second.
func (s *sale) python(rate int) *crowd {
	s.Helper()
	program, err := services.Python()
	services.Require(s.TB, err)
	path, err := filepath.Abs("testdata/claims.py")
	if err != nil {
		s.Fatal(err)
	}
	c := &crowd{s: s, over: "Python"}
	cmd := exec.Command(program, append([]string{path, s.name, fmt.Sprint(rate)}, s.urls()...)...)
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	in, err := cmd.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	c.stop = func() { in.Close() }
	s.Cleanup(c.leave)
	c.all.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			a, err := pythonsAnswer(lines.Bytes())
			if err != nil {
				s.Errorf("%v: %s", err, lines.Text())
				continue
			}
			a.shard = homeShard(a.user, s.shards)
			c.mu.Lock()
			c.tellers = append(c.tellers, a)
			c.mu.Unlock()
		}
		if err := cmd.Wait(); err != nil {
			s.Errorf("Python: %v\n%s", err, trouble.String())
		}
	})
	return c
}

// pythonsAnswer reads a line of claims.py.
func pythonsAnswer(line []byte) (*asked, error) {
	var told struct {
		User, Claim string
		Outcome     api.Outcome
		Units       []int64
		Failures    []struct {
			Server, Outcome string
			Seconds         float64
		}
	}
	if err := json.Unmarshal(line, &told); err != nil {
		return nil, err
	}
	a := &asked{user: told.User, undecided: told.Outcome == ""}
	a.answer.Outcome, a.answer.Claim.ID, a.answer.Claim.Units = told.Outcome, told.Claim, told.Units
	for _, f := range told.Failures {
		waited := time.Duration(f.Seconds * float64(time.Second))
		a.failures = append(a.failures, failure{
			server: f.Server, said: f.Outcome, patient: f.Outcome == string(api.Standby) && waited >= peers.OwnerTimeout,
		})
	}
	return a, nil
}

func (s *sale) urls() (all []string) {
	for _, r := range s.all {
		all = append(all, "http://"+r.listen)
	}
	return all
}

// wrk has one wrk at each process claim. told ends them, and returns what they were told, by
// user.
func (s *sale) wrk() (told func() map[string]string) {
	s.Helper()
	program, err := services.Wrk()
	services.Require(s.TB, err)
	script, err := filepath.Abs("testdata/claims.lua")
	if err != nil {
		s.Fatal(err)
	}
	var files []string
	var commands []*exec.Cmd
	for i, r := range s.all {
		file := filepath.Join(s.dir, fmt.Sprint("wrk-", i))
		cmd := exec.Command(program, "--threads=1", "--connections=2", "--duration=10m", "--script="+script,
			"http://"+r.listen+"/v1/sales/"+s.name+"/claims", "--", file, fmt.Sprint("wrk-", i))
		if err := cmd.Start(); err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { cmd.Process.Kill() })
		files, commands = append(files, file), append(commands, cmd)
	}
	return func() map[string]string {
		s.Helper()
		claims := make(map[string]string)
		for i, cmd := range commands {
			cmd.Process.Signal(syscall.SIGINT)
			cmd.Wait()
			text, err := os.ReadFile(files[i])
			if err != nil {
				s.Fatal(err)
			}
			n := len(claims)
			for line := range strings.Lines(string(text)) {
				user, claim, whole := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				switch {
				case !whole || !strings.HasSuffix(line, "\n"): // it was about to be written
				case user != "-":
					claims[user] = claim
				case !strings.HasPrefix(claim, "503 "):
					s.Errorf("wrk was answered %s", claim)
				}
			}
			if s.Logf("wrk %d: %d claims", i+1, len(claims)-n); len(claims) == n {
				s.Errorf("wrk %d was told of no claim", i+1)
			}
		}
		return claims
	}
}
