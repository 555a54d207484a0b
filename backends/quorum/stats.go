package quorum

import "time"

// Stats counts the events of a machine since its creation.
type Stats struct {
	Tries    uint64 // attempts to acquire keys
	Won      uint64 // tries that acquired their keys
	Refused  uint64 // tries that did not
	Renewals uint64 // rounds in which a majority renewed all keys
	Lost     uint64 // losses of all held keys
	Forced   uint64 // faulty holders that nodes were asked to remove
	Repaired uint64 // keys without an expiry, or with one too far ahead, that nodes gave a new one

	// Votes: nodes' answers about single keys, by kind.
	Yes, No, Abstained, Failed uint64

	Acquiring time.Duration // total time from Acquire until its keys were held
	Waited    time.Duration // part of it before the ballots of the tries that won
}

// Stats returns the counts.
func (m *Machine) Stats() Stats { return m.stats }

// Plus returns the sum of the counts of two machines.
func (s Stats) Plus(t Stats) Stats {
	return Stats{
		Tries: s.Tries + t.Tries, Won: s.Won + t.Won, Refused: s.Refused + t.Refused,
		Renewals: s.Renewals + t.Renewals, Lost: s.Lost + t.Lost, Forced: s.Forced + t.Forced, Repaired: s.Repaired + t.Repaired,
		Yes: s.Yes + t.Yes, No: s.No + t.No, Abstained: s.Abstained + t.Abstained, Failed: s.Failed + t.Failed,
		Acquiring: s.Acquiring + t.Acquiring, Waited: s.Waited + t.Waited,
	}
}
