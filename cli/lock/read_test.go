package lock

import (
	"testing"
	"time"

	"salectl/backends/quorum"
	"salectl/spec"
)

// The age of the heartbeat is the least of all nodes, the end that of a majority.
func TestHeldLocks(t *testing.T) {
	at := func(node, note string, left time.Duration) Node {
		return Node{Name: node, Holdings: []quorum.Holding{{Key: spec.NamedLock("a"), Token: "t", Note: note, Left: left}}}
	}
	for name, test := range map[string]struct {
		read       []Node
		left, beat time.Duration // beat -1: unknown
	}{
		"everywhere":     {[]Node{at("x", "me 3 3000", time.Second), at("y", "me 4 3000", 2*time.Second), at("z", "me 2 3000", 500*time.Millisecond)}, time.Second, time.Second},
		"on a majority":  {[]Node{at("x", "me 3 3000", time.Second), {Name: "y"}, at("z", "me 3 3000", 2*time.Second)}, time.Second, time.Second},
		"on a minority":  {[]Node{at("x", "me 3 3000", time.Second), {Name: "y"}, {Name: "z"}}, 0, 2 * time.Second},
		"without a note": {[]Node{at("x", "", time.Second)}, time.Second, -1},
	} {
		t.Run(name, func(t *testing.T) {
			locks := Held(test.read, NamesOf("tickets", ""))
			if len(locks) != 1 {
				t.Fatalf("there are %d locks", len(locks))
			}
			beat := time.Duration(-1)
			if age := locks[0].HeartbeatAgeSeconds; age != nil {
				beat = time.Duration(*age * float64(time.Second))
			}
			if left := time.Duration(locks[0].LeftSeconds * float64(time.Second)); left != test.left || beat != test.beat {
				t.Errorf("%v left and a heartbeat %v old, want %v and %v", locks[0].LeftSeconds, beat, test.left, test.beat)
			}
		})
	}
}
