package explore

import (
	"slices"
	"testing"
)

// A counter to 3 that two actors move; the test's cases say how.
func counter(next func(s int, do Do[int])) Model[int] {
	return Model[int]{
		Next: next,
		Wrong: func(s int) string {
			if s == 9 {
				return "nine"
			}
			return ""
		},
		Goal: func(s int) bool { return s == 3 },
		Fair: true,
	}
}

func TestWhatIsFound(t *testing.T) {
	up := func(s int, do Do[int]) {
		if s < 3 {
			do(1, s+1, "to %d", s+1)
		}
	}
	for name, c := range map[string]struct {
		next         func(int, Do[int])
		wrong        string
		trace, again []string
	}{
		"holds": {next: up},
		"a wrong state": {
			next:  func(s int, do Do[int]) { up(s, do); do(Fault, 9, "breaks") },
			wrong: "nine", trace: []string{"breaks"},
		},
		"a fault leads out of reach": {
			next: func(s int, do Do[int]) {
				if s != 7 {
					up(s, do)
					do(Fault, 7, "is lost")
				}
			},
			wrong: Stuck, trace: []string{"is lost"},
		},
		"only a fault would help": {
			next: func(s int, do Do[int]) {
				if s < 2 {
					up(s, do)
				} else if s == 2 {
					do(Fault, 3, "luck")
				}
			},
			wrong: Stuck, trace: []string{"to 1", "to 2"},
		},
		"it goes round where the goal is out of reach": {
			next: func(s int, do Do[int]) {
				switch s {
				case 0:
					up(s, do)
					do(1, 5, "astray")
				case 5, 6:
					do(1, 11-s, "round to %d", 11-s)
				default:
					up(s, do)
				}
			},
			wrong: Stuck, trace: []string{"astray"}, again: []string{"round to 6", "round to 5"},
		},
		"one puts it off": {
			next: func(s int, do Do[int]) {
				if s == 2 {
					do(2, 1, "back")
				}
				up(s, do)
			},
			wrong: Livelock, trace: []string{"to 1"}, again: []string{"to 2", "back"},
		},
		"the other is bound to move": {
			next: func(s int, do Do[int]) {
				if s < 2 {
					do(1, 1-s, "turn")
					do(2, 3, "done")
				}
			},
		},
		"the other is not always able to move": {
			next: func(s int, do Do[int]) {
				if s < 2 {
					do(1, 1-s, "turn to %d", 1-s)
				}
				if s == 1 {
					do(2, 3, "done")
				}
			},
			wrong: Livelock, again: []string{"turn to 1", "turn to 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := Run(counter(c.next), 100)
			if r.Wrong != c.wrong || c.trace != nil && !slices.Equal(r.Trace, c.trace) || !slices.Equal(r.Again, c.again) {
				t.Errorf("found %q by %q and then %q, want %q by %q and then %q", r.Wrong, r.Trace, r.Again, c.wrong, c.trace, c.again)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	r := Run(counter(func(s int, do Do[int]) { do(1, s+10, "on") }), 50)
	if !r.Cut || r.States != 50 || r.Wrong != "" {
		t.Errorf("%+v", r)
	}
}
