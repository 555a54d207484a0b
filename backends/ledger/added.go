package ledger

// Added is the range of units that one plan added to a run.
type Added struct {
	Plan  Hash // digest of the plan
	Units Range
}

// Added returns the plans that added units to the present run, in the order of the units.
func (s *Sale) Added() []Added { return s.AddedBy(s.Generation()) }

// AddedBy is like Added, for the generations up to and including generation.
func (s *Sale) AddedBy(generation uint64) (all []Added) {
	first := int64(1)
	for _, p := range s.generations[:generation] {
		if next := p.GetNextUnit(); next > first {
			a := Added{Units: Range{first, next - first}}
			copy(a.Plan[:], p.GetPlanDigest())
			all, first = append(all, a), next
		}
	}
	return all
}
