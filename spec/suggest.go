package spec

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// unknownKey reports a key that its mapping cannot have, and says which one
// was meant, if it can be guessed.
func (d *decoder) unknownKey(o object, key *yaml.Node, known []string) {
	name := target(key).Value
	remedy := fmt.Sprintf("The keys of %s are %s.", called(o.path), and(known))
	if near := nearest(name, known); near != "" {
		remedy = fmt.Sprintf("Did you mean %s?", near)
	} else if paths := homes()[name]; len(paths) > 0 {
		remedy = fmt.Sprintf("It belongs to %s.", called(paths[0]))
	}
	d.refuse(key, remedy, "%s has no key %q", called(o.path), name)
}

// nearest is the word that name was probably meant to be, or empty.
func nearest(name string, words []string) string {
	best, least := "", 3 // more than two slips are another word
	for _, word := range words {
		if strings.EqualFold(name, word) {
			return word
		}
		distance := editDistance(strings.ToLower(name), strings.ToLower(word))
		// Of a short word, two slips leave nothing.
		if distance < least && distance*2 < len(word) {
			best, least = word, distance
		}
	}
	for _, word := range words {
		if best == "" && len(name) >= 3 && strings.HasPrefix(strings.ToLower(word), strings.ToLower(name)) {
			best = word
		}
	}
	return best
}

// editDistance counts the letters to insert, remove or replace to make b of a.
// Words that differ much in length get that difference.
func editDistance(a, b string) int {
	if d := len(a) - len(b); d > 2 || d < -2 {
		return max(d, -d)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
