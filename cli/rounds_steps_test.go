package cli

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// roundPatience is how long a round waits for what must happen at some time.
const roundPatience = 2 * time.Minute

// process is salectl running by itself.
type process struct {
	*exec.Cmd
	began time.Time
	ended chan struct{} // closed when it is gone

	// mu guards text, what it has written.
	mu   sync.Mutex
	text bytes.Buffer
}

// start starts salectl in the round's folder.
func (r *round) start(args ...string) *process {
	p := &process{Cmd: exec.Command("salectl", args...), began: time.Now(), ended: make(chan struct{})}
	p.Dir, p.Stdout, p.Stderr = r.dir, p, p
	if err := p.Start(); err != nil {
		r.Error(err)
		close(p.ended)
		return p
	}
	go func() { p.Wait(); close(p.ended) }()
	r.Cleanup(func() { p.kill() })
	return p
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// said returns what it has written so far.
func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// kill ends it with SIGKILL and says whether that is what ended it.
func (p *process) kill() bool {
	if p.Process != nil {
		p.Process.Kill()
	}
	<-p.ended
	return p.code() < 0
}

// await waits for its end, but not for ever.
func (p *process) await() (inTime bool) {
	select {
	case <-p.ended:
		return true
	case <-time.After(roundPatience):
		p.kill()
		return false
	}
}

// code is the exit code, -1 after a signal.
func (p *process) code() int { return p.ProcessState.ExitCode() }

// step runs a command, kills it some times at a random moment of its usual time,
// and runs it until it ends with the exit code wanted.
func (r *round) step(name string, want int, args ...string) *process {
	chance := r.chance(name)
	if args[len(args)-1] != "more.yaml" {
		args = append(args, "-f", "sale.yaml")
	}
	usual, killed := r.all.takes(name), 0
	for range chance.IntN(4) {
		if usual == 0 {
			break // how long it takes must be seen first
		}
		p := r.start(args...)
		select {
		case <-p.ended:
		case <-time.After(time.Duration(chance.Int64N(int64(usual)))):
		}
		if p.kill() {
			r.note(name+" killed", p.said())
			killed++
		} else if !r.may(name, p, want) {
			return p
		}
	}
	for deadline := time.Now().Add(roundPatience); ; {
		p := r.start(args...)
		switch {
		case !p.await():
			r.Errorf("%s has not ended in %v; it said:\n%s", name, roundPatience, p.said())
			return p
		case p.code() == want:
			if killed == 0 {
				r.all.took(name, time.Since(p.began))
			}
			r.note(name+" done", p.said())
			return p
		case !r.may(name, p, want):
			return p
		case time.Now().After(deadline):
			r.Errorf("%s ends with %d for %v; it says:\n%s", name, p.code(), roundPatience, p.said())
			return p
		}
	}
}

// may reports whether a command may end like this when it is interfered with, and
// then be run again: 5 and 6 say so, and 1 and 7 are for a Redis out of reach.
func (r *round) may(name string, p *process, want int) bool {
	code := p.code()
	if code == want || code == exitStale || code == exitPartly || r.outage > 0 && slices.Contains([]int{exitError, exitTimeout}, code) {
		r.note(fmt.Sprintf("%s ended with %d", name, code), p.said())
		return true
	}
	r.Errorf("%s: exit code %d, want %d; it said:\n%s", name, code, want, p.said())
	return false
}
