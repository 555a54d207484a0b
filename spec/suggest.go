package spec

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// unknownKey reports an unknown key and suggests the intended one, if it can be guessed.
func (d *decoder) unknownKey(o object, key *yaml.Node, known []string) (near string) {
	name := target(key).Value
	remedy := fmt.Sprintf("The keys of %s are %s.", called(o.path), and(known))
	if near = Nearest(name, known); near != "" {
		remedy = fmt.Sprintf("Did you mean %s?", near)
	} else if paths := homes()[name]; len(paths) > 0 {
		// The outermost is the likeliest.
		outermost := slices.MinFunc(paths, func(a, b string) int { return strings.Count(a, ".") - strings.Count(b, ".") })
		remedy = fmt.Sprintf("It belongs to %s.", called(outermost))
	}
	d.refuse(key, remedy, "%s has no key %q", called(o.path), name)
	return near
}

// Nearest returns the word that a name was probably intended to be, or "": at most two typing
// errors away and fewer than half of its letters, or one with the same beginning.
func Nearest(name string, words []string) string {
	best, least := "", 3
	for _, word := range words {
		if strings.EqualFold(name, word) {
			return word
		}
		slips := distance(strings.ToLower(name), strings.ToLower(word))
		if slips < least && slips*2 < len(word) {
			best, least = word, slips
		}
	}
	for _, word := range words {
		if best == "" && len(name) >= 3 && strings.HasPrefix(strings.ToLower(word), strings.ToLower(name)) {
			best = word
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with the next.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
