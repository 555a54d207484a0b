package quorum

import (
	"slices"
	"strconv"
	"strings"
)

// reclaim queues the release of a key that a node has promised to a spent token of this
// machine, or of its group, in which no other machine requests the key. That happens when a node that was stopped executes a timed-out ballot after the
// release of its try. Without reclaim the key would be blocked for a ttl.
func (m *Machine) reclaim(n *node, h Holding) {
	ask := Ask{Key: h.Key, Token: h.Token}
	current := func(l *lease) bool { return l.key == ask.Key && l.token == ask.Token }
	owed := func(a Ask) bool { return a.Key == ask.Key && a.Token == ask.Token }
	if !m.tokens.issued(ask.Token) || slices.ContainsFunc(n.owed, owed) ||
		slices.ContainsFunc(m.held, current) || slices.ContainsFunc(m.wanted, current) {
		return
	}
	m.owe(n, ask)
}

// tokens issues the tokens of a machine, or of those of a Group: a random prefix, and a number.
type tokens struct {
	prefix string
	count  uint64
}

func newTokens(cfg Config) *tokens { return &tokens{prefix: cfg.Token() + "."} }

// next returns a new token.
func (t *tokens) next() string {
	t.count++
	return t.prefix + strconv.FormatUint(t.count, 36)
}

func (t *tokens) issued(token string) bool { return strings.HasPrefix(token, t.prefix) }
