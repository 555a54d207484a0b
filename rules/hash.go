package rules

import (
	"crypto/sha256"
	"encoding/binary"
)

// Hash identifies the rules, variables, attributes, priority and tables of a set. Equal
// declarations have equal hashes on every host and in every version.
func (s *Set) Hash() Digest { return s.hash }

// Schema returns the schema of the users that the set's rules read.
func (s *Set) Schema() *Schema { return s.schema }

// hash hashes each text after its length, so that different declarations have different bytes.
func (d Declaration) hash(schema *Schema) Digest {
	b := []byte("salectl.rules.v1\x00")
	count := func(n int) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	count(len(schema.attributes))
	for _, i := range schema.sorted {
		b = appendText(b, schema.attributes[i].Name)
		b = append(b, byte(schema.attributes[i].Type))
	}
	b = BoolOf(d.History).canonical(b)
	count(len(d.Variables))
	for _, v := range d.Variables {
		b = appendText(appendText(b, v.Name), v.Expression)
	}
	count(len(d.Rules))
	for _, r := range d.Rules {
		if r.Enforce == "" {
			r.Enforce = Deny
		}
		for _, text := range []string{r.Name, r.Require, r.Message, r.MessageExpression, string(r.Enforce)} {
			b = appendText(b, text)
		}
	}
	b = appendText(b, d.Priority)
	for _, t := range d.Tables {
		b = appendText(b, t)
	}
	return sha256.Sum256(b)
}
