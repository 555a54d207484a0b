package quorum

import "time"

// Stats counts what has happened to a machine since it was made.
type Stats struct {
	Tries    uint64 // to get keys, whatever came of them
	Won      uint64 // tries that got them
	Refused  uint64 // tries that did not
	Renewals uint64 // rounds in which a majority renewed all keys
	Lost     uint64 // times that keys were lost
	Forced   uint64 // faulty holders that nodes were told to remove
	Repaired uint64 // keys without an end, or with one too far, that nodes gave one

	// Votes are answers of nodes about single keys, by what they were.
	Yes, No, Abstained, Failed uint64

	Acquiring time.Duration // from the first ballot for keys until they were held, in sum
	Waited    time.Duration // the part of it that was before the ballots of the tries that won
}

// Stats returns the counts.
func (m *Machine) Stats() Stats { return m.stats }

// Plus returns the counts of two machines together.
func (s Stats) Plus(t Stats) Stats {
	return Stats{
		Tries: s.Tries + t.Tries, Won: s.Won + t.Won, Refused: s.Refused + t.Refused,
		Renewals: s.Renewals + t.Renewals, Lost: s.Lost + t.Lost, Forced: s.Forced + t.Forced, Repaired: s.Repaired + t.Repaired,
		Yes: s.Yes + t.Yes, No: s.No + t.No, Abstained: s.Abstained + t.Abstained, Failed: s.Failed + t.Failed,
		Acquiring: s.Acquiring + t.Acquiring, Waited: s.Waited + t.Waited,
	}
}
