package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-multierror"

	"salectl/spec"
)

// ForSale compiles the rules of a sale. It returns nil if the sale has neither rules nor a
// priority. The error contains all problems, as that of Compile, each at its place in the sale's
// file if the sale comes from a file.
func ForSale(s spec.Sale) (*Set, error) {
	if len(s.Rules) == 0 && len(s.Variables) == 0 && priorityOf(s) == "" {
		return nil, nil
	}
	set, err := Compile(declarationOf(s))
	switch {
	case err != nil:
		return nil, placed(s, err)
	case !evaluates(s):
		return nil, nil // the variables alone were checked
	}
	return set, nil
}

// HashFor returns the hash of the set that ForSale returns, without compiling it. It also works for
// a declaration stored by another version of this program. It reports false if there is no set.
func HashFor(s spec.Sale) (Digest, bool) {
	if !evaluates(s) {
		return Digest{}, false
	}
	d := declarationOf(s)
	return d.hash(d.Attributes), true
}

// SchemaFor returns the schema of the users of a sale.
func SchemaFor(s spec.Sale) *Schema {
	if s.Users == nil {
		return noAttributes
	}
	var attributes []Attribute
	for _, a := range s.Users.Attributes {
		kind, _ := ParseType(a.Type) // spec rejects other types
		attributes = append(attributes, Attribute{a.Name, kind})
	}
	return NewSchema(attributes...)
}

// SaleOf returns the sale as rules see it.
func SaleOf(s spec.Sale) Sale {
	return Sale{Name: s.Name, Stock: s.Stock, PerUserLimit: s.PerUserLimit, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt}
}

func evaluates(s spec.Sale) bool { return len(s.Rules) > 0 || priorityOf(s) != "" }

func priorityOf(s spec.Sale) string {
	if s.Queue == nil {
		return ""
	}
	return s.Queue.Priority
}

func declarationOf(s spec.Sale) Declaration {
	d := Declaration{Attributes: SchemaFor(s), History: s.History != nil, Priority: priorityOf(s)}
	if s.Users != nil && s.Users.Table != nil {
		t := s.Users.Table
		d.Tables = append(d.Tables, fmt.Sprintf("users %q %q %q %q %q", t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, t.Columns))
	}
	if s.History != nil && s.History.Table != nil {
		t := s.History.Table
		d.Tables = append(d.Tables, fmt.Sprintf("history %q %q %q %q, files: %v", t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, s.History.Files != nil))
	}
	for _, v := range s.Variables {
		d.Variables = append(d.Variables, Variable{v.Name, v.Expression})
	}
	for _, r := range s.Rules {
		d.Rules = append(d.Rules, Rule{r.Name, r.Require, r.Message, r.MessageExpression, Enforce(r.Enforce)})
	}
	return d
}

// placed moves each problem of a declaration to its place in the sale's file, in reading order. A
// problem without a place there keeps that of Compile.
func placed(s spec.Sale, err error) error {
	var all *multierror.Error
	if !errors.As(err, &all) {
		return fmt.Errorf("the rules of sale %s: %w", s.Name, err)
	}
	for _, e := range all.Errors {
		var p *Problem
		errors.As(e, &p) // each is one
		at := placeOf(s, p)
		if !at.Known() {
			p.File = fmt.Sprintf("sale %s, %s", s.Name, p.File)
			continue
		}
		within := place{p.Of, p.Name, p.Field}
		p.Problem = *at.Problem(p.Line, p.Column, within.String()+": "+p.Message, p.Remedy)
	}
	slices.SortStableFunc(all.Errors, func(a, b error) int {
		var p, q *Problem
		errors.As(a, &p)
		errors.As(b, &q)
		return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
	})
	return all
}

// placeOf returns the place of a problem's text.
func placeOf(s spec.Sale, p *Problem) spec.Place {
	switch p.Of {
	case "priority":
		return s.Place("spec.queue.priority")
	case "variable":
		i := slices.IndexFunc(s.Variables, func(v spec.Variable) bool { return v.Name == p.Name })
		return s.Place(fmt.Sprintf("spec.variables[%d].expression", i))
	}
	i := slices.IndexFunc(s.Rules, func(r spec.Rule) bool { return r.Name == p.Name })
	return s.Place(fmt.Sprintf("spec.rules[%d].%s", i, p.Field))
}
