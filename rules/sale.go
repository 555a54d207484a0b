package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"salectl/spec"
)

// HashFor returns the hash of the set that ForSale returns, without compiling it. It also works for
// a declaration stored by another version of this program. It reports false if there is no set.
func HashFor(s spec.Sale) (Digest, bool) {
	if !evaluates(s) {
		return Digest{}, false
	}
	return hashOf(s), true
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

// Hash identifies the rules, variables, attributes, priority and tables of a set. Equal
// declarations have equal hashes on every host and in every version.
func (s *Set) Hash() Digest { return s.hash }

// Schema returns the schema of the users that the set's rules read.
func (s *Set) Schema() *Schema { return s.schema }

// hashOf hashes each text after its length, so that different sales have different bytes. Rules cannot
// read the tables of users and history, but decisions based on different tables differ.
func hashOf(s spec.Sale) Digest {
	schema := SchemaFor(s)
	b := []byte("salectl.rules.v1\x00")
	count := func(n int) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	count(len(schema.attributes))
	for _, i := range schema.sorted {
		b = appendText(b, schema.attributes[i].Name)
		b = append(b, byte(schema.attributes[i].Type))
	}
	b = BoolOf(s.History != nil).canonical(b)
	count(len(s.Variables))
	for _, v := range s.Variables {
		b = appendText(appendText(b, v.Name), v.Expression)
	}
	count(len(s.Rules))
	for _, r := range s.Rules {
		for _, text := range []string{r.Name, r.Require, r.Message, r.MessageExpression, string(r.Enforce)} {
			b = appendText(b, text)
		}
	}
	b = appendText(b, priorityOf(s))
	if s.Users != nil && s.Users.Table != nil {
		t := s.Users.Table
		b = appendText(b, fmt.Sprintf("users %q %q %q %q %q", t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, t.Columns))
	}
	if s.History != nil && s.History.Table != nil {
		t := s.History.Table
		b = appendText(b, fmt.Sprintf("history %q %q %q %q, files: %v", t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, s.History.Files != nil))
	}
	return sha256.Sum256(b)
}
