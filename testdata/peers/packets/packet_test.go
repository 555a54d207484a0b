package main

import (
	"errors"
	"testing"
)

func TestCheck(t *testing.T) {
	all := []packet{{ID: 0, Money: 10}, {ID: 1, Money: 20}, {ID: 2, Money: 30}}
	ann, bob := packet{ID: 0, Money: 10, User: "ann"}, packet{ID: 1, Money: 20, User: "bob"}
	for name, c := range map[string]struct {
		taken []packet
		grabs int
		wrong bool
	}{
		"as it should be":      {[]packet{bob, ann}, 2, false},
		"nobody came":          {nil, 0, false},
		"one known, one not":   {[]packet{ann}, 2, true},
		"one taken and untold": {[]packet{ann, bob}, 1, true},
		"a packet for two":     {[]packet{ann, {ID: 0, Money: 10, User: "bob"}}, 2, true},
		"two for a user":       {[]packet{ann, {ID: 1, Money: 20, User: "ann"}}, 2, true},
		"for nobody":           {[]packet{{ID: 0, Money: 10}}, 1, true},
		"other money":          {[]packet{{ID: 0, Money: 20, User: "ann"}}, 1, true},
		"one too many":         {[]packet{{ID: 3, Money: 10, User: "ann"}}, 1, true},
		"one before the first": {[]packet{{ID: -1, Money: 10, User: "ann"}}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := check(all, c.taken, c.grabs); errors.Is(err, errWrong) != c.wrong {
				t.Errorf("the error is: %v", err)
			}
		})
	}
}
