package process_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/executor/process"
	"salectl/executor/status"
)

// watching is a log and a clock that moves by hand.
type watching struct {
	t        *testing.T
	now      clock.Now
	out      strings.Builder
	log      *slog.Logger
	reporter status.Reporter
}

func newWatching(t *testing.T) *watching {
	w := &watching{t: t, now: clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}}
	w.log = slog.New(slog.NewTextHandler(&w.out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}}))
	return w
}

func (w *watching) report(problems []status.Problem) { w.reporter.Report(w.now, problems, w.log) }

func (w *watching) pass(d time.Duration) {
	w.now.Mono += d
	w.now.Wall = w.now.Wall.Add(d)
}

// told fails the test unless these lines were written since the last time.
func (w *watching) told(want ...string) {
	w.t.Helper()
	got := strings.TrimSuffix(w.out.String(), "\n")
	w.out.Reset()
	if got != strings.Join(want, "\n") {
		w.t.Errorf("the log has\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

var errRefused = &quorum.NodeError{Node: "a:1", Err: errors.New("nothing answers:\n connection refused")}

func TestNodeWatch(t *testing.T) {
	for name, test := range map[string]func(w *watching, n ownership.Nodes, heard func(error)){
		"up from the beginning": func(w *watching, n ownership.Nodes, heard func(error)) {
			heard(nil)
			w.pass(time.Hour)
			heard(nil)
			w.told()
			if s := n[0]; !s.Up || s.Error != "" || w.now.Wall.Sub(s.Since) != time.Hour || s.String() != "" {
				w.t.Errorf("%+v", s)
			}
		},
		"a wrong clock": func(w *watching, n ownership.Nodes, heard func(error)) {
			heard(nil)
			n[0].Ahead = 10 * time.Second
			w.report(process.NodeProblems(n))
			w.told()
			n[0].Ahead = -time.Hour
			w.report(process.NodeProblems(n))
			w.report(process.NodeProblems(n))
			w.told(`msg="the clock of a lock node is wrong" node=a:1 why="it is ahead by -1h0m0s" remedy="correct it; hours are compared with this process's clock"`)
			n[0].Ahead = time.Second
			w.report(process.NodeProblems(n))
			w.told(`msg="the clock of a lock node is right again" node=a:1`)
		},
		"never up": func(w *watching, n ownership.Nodes, heard func(error)) {
			if s := n[0]; s.Up || s.Error == "" {
				w.t.Errorf("%+v", s)
			}
			n.Called(w.now, 0)
			w.pass(time.Second)
			heard(errRefused)
			n.Called(w.now, 0)
			heard(errRefused)
			w.told(`msg="a lock node cannot be used" node=a:1 since=2027-01-15T08:00:00.000Z why="nothing answers: connection refused"`)
		},
		"slow once": func(w *watching, n ownership.Nodes, heard func(error)) {
			heard(nil)
			heard(errRefused)
			if s := n[0]; s.Up || s.String() != "a:1 is down since 2027-01-15T08:00:00Z: nothing answers: connection refused" {
				w.t.Errorf("%+v", s)
			}
			heard(nil)
			w.told()
		},
		"down and up": func(w *watching, n ownership.Nodes, heard func(error)) {
			heard(nil)
			w.pass(time.Minute)
			heard(errRefused)
			w.pass(time.Second)
			heard(errRefused)
			heard(errRefused)
			w.told(`msg="a lock node cannot be used" node=a:1 since=2027-01-15T08:01:00.000Z why="nothing answers: connection refused"`)
			w.pass(time.Minute)
			heard(nil)
			w.told(`msg="a lock node can be used again" node=a:1 after=1m1s`)
		},
		"up and down all the time": func(w *watching, n ownership.Nodes, heard func(error)) {
			for range 100 {
				heard(errRefused)
				heard(errRefused)
				w.pass(100 * time.Millisecond)
				heard(nil)
				w.pass(100 * time.Millisecond)
			}
			if lines := strings.Count(w.out.String(), "\n"); lines > 4 {
				w.t.Errorf("%d lines in 20 s", lines)
			}
		},
		"abstains": func(w *watching, n ownership.Nodes, heard func(error)) {
			heard(nil)
			for range 3 {
				n.Replied(w.now, 0, quorum.NodeView{VotesFrom: time.Unix(1_800_000_010, 0)})
				w.report(process.NodeProblems(n))
			}
			w.told(`msg="a lock node has lost its memory and abstains" node=a:1 why="it votes again at 2027-01-15T08:00:10Z"`)
			if s := n[0]; !s.Up || s.String() != "a:1 lost its memory and votes again at 2027-01-15T08:00:10Z" {
				w.t.Errorf("%+v", s)
			}
			heard(nil)
			w.told(`msg="a lock node votes again" node=a:1`)
			if s := n[0]; !s.VotesFrom.IsZero() {
				w.t.Errorf("%+v", s)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatching(t)
			n := ownership.NewNodes([]string{"a:1"})
			test(w, n, func(err error) {
				n.Called(w.now, 0)
				n.Replied(w.now, 0, quorum.NodeView{Err: err})
				w.report(process.NodeProblems(n))
			})
		})
	}
}

// TestPeerProblems logs a process that is not reached, and one that reaches nobody, until that is over.
func TestPeerProblems(t *testing.T) {
	w := newWatching(t)
	const remedy = `remedy="if it runs, check its --advertise and --token-file, and the network"`
	const away = `msg="another process of the sale is not reached: it has died, or the network to it is cut" peer=%s ` + remedy
	for range 2 { // the second time it is known
		w.report([]status.Problem{{Kind: status.PeerUnreached, Where: "c:1"}})
	}
	w.told(fmt.Sprintf(away, "c:1"))
	w.report([]status.Problem{{Kind: status.Isolated, Where: "a:1", Why: "it reaches 0 of 2 others, and the ttl is 3s"}})
	const reached = `msg="another process of the sale is reached again, or no longer serves it" peer=`
	w.told(reached+"c:1", `msg="this process reaches fewer than half of the processes of the sale, while others reach each other: `+
		`it takes no shards, and releases its own after a ttl" advertises=a:1`+
		` why="it reaches 0 of 2 others, and the ttl is 3s" remedy="check its --advertise and --token-file, and the network"`)
	w.report(nil)
	w.told(`msg="this process takes shards again: it reaches half of the processes of the sale, or none of them reaches more" advertises=a:1`)
}
