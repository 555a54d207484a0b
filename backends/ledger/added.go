package ledger

// Added is what one plan has added to a run.
type Added struct {
	Plan  Hash // its digest
	Units Range
}

// Added returns which plans have added units to the present run, in the order of the units.
func (s *Sale) Added() []Added { return s.AddedBy(s.Generation()) }

// AddedBy is Added of the generations up to one of them.
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
