package executor

import (
	"testing"

	"salectl/api"
	"salectl/executor/shard"
)

// endingLink is a link that ends at the moment in which something is asked by it.
type endingLink struct {
	Link
	end func()
}

func (l endingLink) Forward(shard.ForwardedRequest) bool {
	l.end()
	return false
}

// TestLookWhileItsLinkEnds asks a peer whose link ends meanwhile: whoever asks is told once that
// it cannot be told, either by the end of the link or by ask.
func TestLookWhileItsLinkEnds(t *testing.T) {
	for name, taken := range map[string]bool{"before the link is seen to end": false, "when it has": true} {
		t.Run(name, func(t *testing.T) {
			var all links
			var questions queries
			all.set("peer", endingLink{end: func() {
				all.set("peer", nil)
				if taken {
					questions.cut("peer", api.Standby)
				}
			}})
			var told []api.Outcome
			forget, ok := questions.send(&all, "peer", shard.ForwardedRequest{}, func(a Answer) { told = append(told, a.Outcome) })
			if ok != taken {
				t.Errorf("ask returned %v", ok)
			}
			if ok {
				forget()
			}
			questions.cut("peer", api.Standby)
			want := 0
			if taken {
				want = 1
			}
			if len(told) != want {
				t.Errorf("it was told %v", told)
			}
		})
	}
}
