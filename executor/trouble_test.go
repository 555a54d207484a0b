package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// watching is a log and a clock that moves by hand.
type watching struct {
	t   *testing.T
	now clock.Now
	out strings.Builder
	log *slog.Logger
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

var errRefused = errors.New("lock node a:1: nothing answers:\n connection refused")

func TestNodeWatch(t *testing.T) {
	for name, test := range map[string]func(w *watching, n nodeWatch, heard func(error)){
		"up from the beginning": func(w *watching, n nodeWatch, heard func(error)) {
			heard(nil)
			w.pass(time.Hour)
			heard(nil)
			w.told()
			if s := n.status()[0]; !s.Up || s.Error != "" || w.now.Wall.Sub(s.Since) != time.Hour || s.String() != "" {
				w.t.Errorf("%+v", s)
			}
		},
		"a wrong clock": func(w *watching, n nodeWatch, heard func(error)) {
			heard(nil)
			n[0].wrong = 10 * time.Second
			n.tell(w.now, w.log)
			w.told()
			n[0].wrong = -time.Hour
			n.tell(w.now, w.log)
			n.tell(w.now, w.log)
			w.told(`msg="the clock of a lock node is wrong: set it right; hours are judged by this process's clock" node=a:1 ahead=-1h0m0s`)
			n[0].wrong = time.Second
			n.tell(w.now, w.log)
			w.told(`msg="the clock of a lock node is right again" node=a:1`)
		},
		"never up": func(w *watching, n nodeWatch, heard func(error)) {
			if s := n.status()[0]; s.Up || s.Error == "" {
				w.t.Errorf("%+v", s)
			}
			n.asked(w.now, 0)
			w.pass(time.Second)
			heard(errRefused)
			n.asked(w.now, 0)
			heard(errRefused)
			w.told(`msg="a lock node cannot be used" node=a:1 since=2027-01-15T08:00:00.000Z why="nothing answers: connection refused"`)
		},
		"slow once": func(w *watching, n nodeWatch, heard func(error)) {
			heard(nil)
			heard(errRefused)
			if s := n.status()[0]; s.Up || s.String() != "a:1 is down since 2027-01-15T08:00:00Z: nothing answers: connection refused" {
				w.t.Errorf("%+v", s)
			}
			heard(nil)
			w.told()
		},
		"down and up": func(w *watching, n nodeWatch, heard func(error)) {
			heard(nil)
			w.pass(time.Minute)
			heard(errRefused)
			w.pass(time.Second)
			heard(errRefused)
			heard(errRefused)
			w.told(`msg="a lock node cannot be used" node=a:1 since=2027-01-15T08:01:00.000Z why="nothing answers: connection refused"`)
			w.pass(time.Minute)
			heard(nil)
			w.told(`msg="a lock node can be used again" node=a:1 away=1m1s`)
		},
		"up and down all the time": func(w *watching, n nodeWatch, heard func(error)) {
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
		"abstains": func(w *watching, n nodeWatch, heard func(error)) {
			heard(nil)
			for range 3 {
				n.heard(w.now, 0, quorum.NodeView{VotesFrom: time.Unix(1_800_000_010, 0)})
				n.tell(w.now, w.log)
			}
			w.told(`msg="a lock node has lost its memory and abstains" node=a:1 until=2027-01-15T08:00:10.000Z`)
			if s := n.status()[0]; !s.Up || s.String() != "a:1 lost its memory and votes again at 2027-01-15T08:00:10Z" {
				w.t.Errorf("%+v", s)
			}
			heard(nil)
			if s := n.status()[0]; !s.VotesFrom.IsZero() {
				w.t.Errorf("%+v", s)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatching(t)
			n := newNodeWatch([]string{"a:1"})
			test(w, n, func(err error) {
				n.asked(w.now, 0)
				n.heard(w.now, 0, quorum.NodeView{Err: err})
				n.tell(w.now, w.log)
			})
		})
	}
}

func TestStallWatch(t *testing.T) {
	w := newWatching(t)
	var s stallWatch
	since := w.now.Wall
	stalled := map[int]Stall{}
	stall := func(shards ...int) {
		for _, shard := range shards {
			stalled[shard] = Stall{Since: since.Add(time.Duration(shard) * time.Millisecond), Error: "no answer"}
		}
	}
	tell := func() {
		w.pass(time.Second)
		s.tell(w.now, stalled, w.log)
	}
	const line = `msg="shards stall: the store does not answer for them, or not clearly" `
	tell()
	w.told()
	stall(7, 1, 2, 3)
	tell()
	tell()
	w.told(line + `shards=1-3,7 since=2027-01-15T08:00:00.001Z why="no answer"`)
	stall(8, 9)
	tell()
	w.told()
	w.pass(quietFor)
	tell()
	w.told(line + `shards=8-9 since=2027-01-15T08:00:00.008Z why="no answer"`)
	delete(stalled, 2)
	tell()
	w.told(`msg="shards go on" shards=2 after=15.998s`)
	clear(stalled)
	tell()
	w.told(`msg="shards go on" shards=1,3,7-9 after=16.999s`)
	for range 100 {
		stall(1)
		tell()
		clear(stalled)
		tell()
	}
	if lines := strings.Count(w.out.String(), "\n"); lines > 40 {
		t.Errorf("%d lines in 200 s", lines)
	}
}

// TestClockWatch tells of a wrong clock when it is found, and when it is right again.
func TestClockWatch(t *testing.T) {
	w := newWatching(t)
	var c clockWatch
	c.tell(0, w.log)
	w.told()
	const wrong = `msg="this host's clock is off the lock nodes': no claim is accepted until it is right" ahead=%s ` +
		`remedy="set it right; 'salectl status' tells what else can be done"`
	c.tell(time.Hour+1234567, w.log)
	w.told(fmt.Sprintf(wrong, "1h0m0.001s"))
	c.tell(time.Hour, w.log) // it is known
	w.told()
	c.tell(0, w.log)
	w.told(`msg="this host's clock agrees with the lock nodes' again"`)
	c.tell(0, w.log)
	w.told()
	c.tell(-time.Minute, w.log)
	w.told(fmt.Sprintf(wrong, "-1m0s"))
}

// TestPeerWatch tells of a process that is not reached, of one that reaches nobody, and when
// that is over. One that ends is nothing to tell.
func TestPeerWatch(t *testing.T) {
	w := newSharedWorld(t, 3, 6)
	a, b := w.joins("a", nil), w.joins("b", nil)
	w.converge(5 * time.Second)
	c := w.joins("c", nil)
	c.cut(a)
	c.cut(b)
	told := newWatching(t)
	var ofA, ofC peerWatch
	ofA.tell(w.now, a.o, told.log)
	told.told()
	w.pass(goneAfter)
	const remedy = `remedy="if it runs, look at its --advertise and --token-file, and at the network"`
	const away = `msg="another process of the sale is not reached: it has died, or the way to it is cut" peer=%s ` + remedy
	for range 2 { // the second time it is known
		ofA.tell(w.now, a.o, told.log)
	}
	told.told(fmt.Sprintf(away, c.o.cfg.Address))
	ofC.tell(w.now, c.o, told.log)
	told.told(fmt.Sprintf(away, a.o.cfg.Address), fmt.Sprintf(away, b.o.cfg.Address),
		`msg="this process reaches fewer than half of the processes of the sale, while others reach each other: `+
			`it takes no shards, and gives up its own after a ttl of that" reaches="0 of 2 others" ttl=3s advertises=`+c.o.cfg.Address+
			` remedy="look at its --advertise and --token-file, and at the network"`)
	c.join(a)
	c.join(b)
	w.pass(goneAfter)
	ofA.tell(w.now, a.o, told.log)
	told.told(`msg="another process of the sale is reached again" peer=` + c.o.cfg.Address)
	ofC.tell(w.now, c.o, told.log)
	told.told(`msg="another process of the sale is reached again" peer=`+a.o.cfg.Address,
		`msg="another process of the sale is reached again" peer=`+b.o.cfg.Address,
		`msg="this process takes shards again: it reaches half of the processes of the sale, or none of them reaches more"`)
	b.dead = true
	w.pass(awayAfter + beatEvery)
	ofA.tell(w.now, a.o, told.log)
	told.told(fmt.Sprintf(away, b.o.cfg.Address))
}

// TestMayTell lets the first line of its kind be written at once, and the next after a
// while.
func TestMayTell(t *testing.T) {
	now := clock.Now{Mono: quietFor / 2}
	for last, want := range map[time.Duration]bool{0: true, 1: false, now.Mono - quietFor: true, now.Mono - quietFor + 1: false} {
		if got := mayTell(now, last); got != want {
			t.Errorf("the last %v ago: %v", now.Mono-last, got)
		}
	}
}
