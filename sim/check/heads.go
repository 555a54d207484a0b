package check

import (
	"bytes"
	"encoding/hex"
	"strconv"
)

// heads compares each head with its slot and with the recount. Its bytes are
// what the next append compares, so not one may differ.
func heads(e *evidence, bad fault) {
	var want []byte
	for _, s := range e.slots {
		if s.head == nil {
			continue
		}
		m := &s.after
		phase := [...]string{"planned", "open", "paused", "closed"}[m.settings.GetPhase()&3]
		if m.sealed {
			phase = "sealed"
		}
		want = append(want[:0], `{"slot":`...)
		want = strconv.AppendUint(want, s.n, 10)
		want = append(want, `,"hash":"`...)
		want = hex.AppendEncode(want, s.hash[:])
		want = append(want, `","generation":`...)
		want = strconv.AppendUint(want, m.generation, 10)
		want = append(want, `,"epoch":`...)
		want = strconv.AppendUint(want, m.epoch, 10)
		want = append(want, `,"owner":"`+m.owner+`","phase":"`+phase+`"`...)
		for i, n := range [...]int64{m.limit, m.available, m.held, m.sold, m.inFlight} {
			want = append(want, [...]string{`,"limit":`, `,"available":`, `,"held":`, `,"sold":`, `,"inFlight":`}[i]...)
			want = strconv.AppendInt(want, n, 10)
		}
		want = append(want, '}')
		if !bytes.Equal(s.head, want) {
			bad("%v came with the head %s; its slots add up to %s", s, s.head, want)
		}
	}
}
