package quorum_test

import (
	"testing"
	"time"

	"salectl/backends/quorum"
)

func newPace(jitter *float64) quorum.Pace {
	return quorum.NewPace(quorum.Config{TTL: ttl, Token: func() string { return "t" }, Jitter: func() float64 { return *jitter }})
}

func TestPace(t *testing.T) {
	jitter := 0.25
	p := newPace(&jitter)
	const every, phase = ttl / 3, ttl / 12
	for aged, want := range map[time.Duration]time.Duration{
		0: phase, phase - 1: phase, phase: phase + every, phase + 1: phase + every, phase + 7*every - 1: phase + 7*every, phase + 7*every: phase + 8*every,
	} {
		if got := p.Renewal(aged); got != want {
			t.Errorf("at %v the next renewal is at %v, want %v", aged, got, want)
		}
	}
	jitter = 0.5
	const from = phase + 10*ms // the next renewal is at phase + every
	for _, step := range []struct {
		what              string
		aged, least, most time.Duration
		want              time.Duration // when to go on
	}{
		{"nobody goes on within the bounds", from, 20 * ms, 60 * ms, from + 40*ms},
		{"somebody does", from + 10*ms, 20 * ms, 60 * ms, from + 40*ms},
		{"at the lower bound", from + 20*ms, 20 * ms, 60 * ms, from + 40*ms},
		{"below it", from + 21*ms, 20 * ms, 61 * ms, from + 61*ms + ms/2},
		{"at the upper bound", from - 20*ms, 50 * ms, 60 * ms, from + 40*ms},
		{"above it", from - 21*ms, 40 * ms, 60 * ms, from + 29*ms},
		{"the renewal is within the bounds", phase + every - 50*ms, 40 * ms, 60 * ms, phase + every},
		{"at the lower one", phase + every - 40*ms, 40 * ms, 60 * ms, phase + every},
		{"at the upper one", phase + every - 60*ms, 40 * ms, 60 * ms, phase + every},
		{"below", phase + every - 39*ms, 40 * ms, 60 * ms, phase + every + 11*ms},
	} {
		if got := step.aged + p.Pause(step.aged, step.least, step.most); got != step.want {
			t.Errorf("%s: it goes on at %v, want %v", step.what, got, step.want)
		}
	}
	if n := p.Instants(); n != 1 {
		t.Errorf("it remembers %d instants, want the one to come", n)
	}
	if p.Pause(phase+every+11*ms, 40*ms, 60*ms); p.Instants() != 1 {
		t.Errorf("it remembers %d instants, want the one to come", p.Instants())
	}
}
