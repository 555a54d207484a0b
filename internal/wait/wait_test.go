package wait

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPoll(t *testing.T) {
	for name, c := range map[string]struct {
		fails int // polls that fail before the state is reached
		want  bool
	}{
		"reached at once":     {0, true},
		"reached in time":     {5, true},
		"not reached by then": {1000, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				polls, missing := 0, errors.New("missing")
				err := Poll(time.Second, func() error {
					if polls++; polls > c.fails {
						return nil
					}
					return missing
				})
				if c.want != (err == nil) || err != nil && err != missing {
					t.Errorf("after %d polls: %v", polls, err)
				}
			})
		})
	}
}
