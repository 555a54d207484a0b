package quorum

import (
	"slices"
	"strconv"
	"strings"
)

// reclaim queues the release of the key if a node has promised it to a spent token of this group.
// That happens when a node that was stopped executes a timed-out ballot after the release of its
// try. Without reclaim the key would be blocked for a ttl.
func (k *key) reclaim(n *node, h Holding) {
	owed := func(a Ask) bool { return a.Token == h.Token }
	current := k.lease != nil && k.lease.token == h.Token
	if k.g.tokens.issued(h.Token) && !current && !slices.ContainsFunc(n.owed, owed) {
		k.owe(n, Ask{Key: k.name, Token: h.Token})
	}
}

// tokens issues the tokens of a Group: a random prefix, and a number.
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
