package check

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strconv"

	pb "salectl/backends/ledger/ledgerpb"
)

// heads compares each head with its slot and with the recount. Its bytes are
// what the next append compares, so not one may differ.
func heads(e *evidence, bad fault) {
	var want []byte
	compare := func(s *slot, m *moment, phase string) {
		if s.head == nil {
			return
		}
		if want = appendHead(want[:0], s, m, phase); !bytes.Equal(s.head, want) {
			bad("%v came with the head %s; its slots add up to %s", s, s.head, want)
		}
	}
	for _, s := range e.slots {
		phase := phaseName(s.after.settings)
		if s.after.sealed {
			phase = "sealed"
		}
		compare(s, &s.after, phase)
	}
	// Of the numbers the sale's own log uses the generation alone, which is the
	// newest planned. Its phase is "planned" up to the run's first Applied.
	var newest *pb.Planned
	var phase string
	var applied bool
	for _, s := range e.sale.slots {
		for _, op := range s.commit.GetOps() {
			switch {
			case op.GetPlanned() != nil:
				newest, phase = op.GetPlanned(), "planned"
			case op.GetApplied() != nil:
				applied = applied || phase == "planned"
			case op.GetSealed() != nil:
				phase, applied = "sealed", false
			case op.GetDestroyed() != nil:
				phase, applied = "destroyed", false
			}
		}
		if applied {
			phase = phaseName(newest.GetSettings())
		}
		compare(s, &moment{generation: newest.GetGeneration()}, phase)
	}
}

func phaseName(s *pb.Settings) string {
	return [...]string{"planned", "open", "paused", "closed"}[s.GetPhase()&3]
}

// appendHead adds the head that is to stand beside a slot.
func appendHead(b []byte, s *slot, m *moment, phase string) []byte {
	b = append(b, `{"slot":`...)
	b = strconv.AppendUint(b, s.n, 10)
	b = append(b, `,"hash":"`...)
	b = hex.AppendEncode(b, s.hash[:])
	b = append(b, '"')
	if us := s.commit.GetTimeUs(); us != 0 {
		b = strconv.AppendInt(append(b, `,"timeUs":`...), us, 10)
	}
	b = append(b, `,"generation":`...)
	b = strconv.AppendUint(b, m.generation, 10)
	b = append(b, `,"epoch":`...)
	b = strconv.AppendUint(b, m.epoch, 10)
	b = append(b, `,"owner":"`+m.owner+`","phase":"`+phase+`"`...)
	for i, n := range [...]int64{m.limit, m.available, m.held, m.sold, m.inFlight} {
		b = append(b, [...]string{`,"limit":`, `,"available":`, `,"held":`, `,"sold":`, `,"inFlight":`}[i]...)
		b = strconv.AppendInt(b, n, 10)
	}
	if m.fill != 0 {
		b = strconv.AppendUint(append(b, `,"fill":`...), m.fill, 10)
	}
	if m.entries != 0 {
		b = strconv.AppendInt(append(b, `,"entries":`...), m.entries, 10)
	}
	if m.outcomes == (outcomes{}) {
		return append(b, '}')
	}
	counted, _ := json.Marshal(m.outcomes)
	return append(append(b, ','), counted[1:]...)
}
