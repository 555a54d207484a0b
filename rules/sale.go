package rules

import (
	"crypto/sha256"
	"encoding/json"

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

// hashOf hashes all that a decision depends on. Rules cannot read the tables of users and history, but
// decisions based on different tables differ.
func hashOf(s spec.Sale) Digest {
	content := struct {
		Users     *spec.Users
		History   *spec.History
		Variables []spec.Variable
		Rules     []spec.Rule
		Priority  string
	}{s.Users, s.History, s.Variables, s.Rules, priorityOf(s)}
	if s.Users != nil {
		content.Users = &spec.Users{Attributes: s.Users.Attributes, Table: s.Users.Table}
	}
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // texts and lists of texts only
	}
	return sha256.Sum256(append([]byte("salectl.rules.v1\x00"), text...))
}
