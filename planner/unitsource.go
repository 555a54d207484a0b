package planner

import (
	"encoding/hex"
	"strings"

	"salectl/spec"
)

// UnitSource describes in plans the source of a sale's payloads.
type UnitSource struct {
	From   string   `json:"from"` // file, range
	Ranges []string `json:"ranges,omitempty"`
	Column string   `json:"column,omitempty"` // column of the file that names a unit; "": the first
	Secret bool     `json:"secret,omitempty"` // encrypted in the ledger, and sent only to buyers
	Choose bool     `json:"choose,omitempty"` // buyers may choose units by name
	Digest string   `json:"digest,omitempty"` // digest of all payloads, in hex; unknown before apply
}

func unitSourceOf(s spec.Sale) *UnitSource {
	u := s.Units
	if u == nil {
		return nil
	}
	g := &UnitSource{From: "file", Ranges: u.Ranges, Column: u.Column, Secret: u.Secret, Choose: u.Choose}
	if len(u.Ranges) > 0 {
		g.From = "range"
	}
	return g
}

// with returns g with the digest of its units.
func (g *UnitSource) with(digest []byte) *UnitSource {
	if g != nil {
		g.Digest = hex.EncodeToString(digest)
	}
	return g
}

// list returns the attributes of a UnitSource.
func (g *UnitSource) list() []Field {
	if g == nil {
		g = new(UnitSource)
	}
	word := func(is bool) string {
		if is {
			return "true"
		}
		return ""
	}
	return []Field{
		{Name: "units.from", After: g.From}, {Name: "units.range", After: strings.Join(g.Ranges, ", ")},
		{Name: "units.column", After: g.Column}, {Name: "units.secret", After: word(g.Secret)},
		{Name: "units.choose", After: word(g.Choose)}, {Name: "units.digest", After: g.Digest[:min(len(g.Digest), shortSet)]},
	}
}
