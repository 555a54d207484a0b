package planner

import (
	"encoding/hex"
	"strings"

	"salectl/spec"
)

// Goods is what units are, as plans tell it.
type Goods struct {
	From   string   `json:"from"` // file, range
	Ranges []string `json:"ranges,omitempty"`
	Column string   `json:"column,omitempty"` // of the file, that names a unit; "": the first
	Secret bool     `json:"secret,omitempty"` // encrypted in the ledger, and told to buyers alone
	Choose bool     `json:"choose,omitempty"` // buyers may ask for units by name
	Digest string   `json:"digest,omitempty"` // of all of them, in hex; not known before apply
}

func goodsOf(s spec.Sale) *Goods {
	u := s.Units
	if u == nil {
		return nil
	}
	g := &Goods{From: "file", Ranges: u.Ranges, Column: u.Column, Secret: u.Secret, Choose: u.Choose}
	if len(u.Ranges) > 0 {
		g.From = "range"
	}
	return g
}

// with is g of units that have a digest.
func (g *Goods) with(digest []byte) *Goods {
	if g != nil {
		g.Digest = hex.EncodeToString(digest)
	}
	return g
}

// list returns what there is to be told, each under a name of its own.
func (g *Goods) list() []Field {
	if g == nil {
		g = new(Goods)
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
