package spec

// Rows are how many names each item of Ranges has, in their order: units of one item lie
// side by side, those of two do not. None for nil, and for units of a file.
func (u *Units) Rows() (counts []int64) {
	if u == nil {
		return nil
	}
	for _, text := range u.Ranges {
		if r, f := readRange(text); f == nil { // else neither Load nor FromJSON takes it
			counts = append(counts, r.count())
		}
	}
	return counts
}
