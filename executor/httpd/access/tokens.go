package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"salectl/executor/httpd/wire"
)

// Rights are what a token permits.
type Rights uint8

// The rights of a token file. A token that may operate may do all.
const (
	MayClaim   Rights = 1 << iota // claim, extend and cancel what is held, look claims up, read how the sale stands
	MayOperate                    // refund, drain, read the state of nodes and shards, link to the process
	MayFollow                     // follow the feed of the ledger
	MayConfirm                    // confirm that a claim is paid
)

// MayAll are all rights.
const MayAll = MayClaim | MayOperate | MayFollow | MayConfirm

// rightsByWord has the rights as they are written in a token file.
var rightsByWord = map[string]Rights{"claim": MayClaim, "confirm": MayConfirm, "follow": MayFollow, "operate": MayAll}

// wordOf has the one right that a request needs as it is written in a token file.
var wordOf = map[Rights]string{MayClaim: "claim", MayConfirm: "confirm", MayFollow: "follow", MayOperate: "operate"}

// ErrBadToken means that a token file is not usable.
var ErrBadToken = errors.New("unusable token file")

// Bounds of a token file: they keep out files that are something else, and each request is compared
// with every token.
const (
	leastToken = 16 // where other machines can reach the server
	maxToken   = 4096
	mostTokens = 64
	maxTokens  = 64 << 10 // bytes
)

// Tokens are the bearer tokens that a server accepts. They can be read again while it serves. nil: the
// server asks for none, and permits everything.
type Tokens struct {
	path string
	open bool // other machines can reach the server
	set  atomic.Pointer[tokenSet]
}

// tokenSet is the content of a token file. It does not change.
type tokenSet struct {
	content []byte
	all     []token
}

type token struct {
	text   string
	digest [sha256.Size]byte
	rights Rights
}

// ReadTokens reads a token file: a token a line, of visible ASCII, with its rights behind it,
// claim, confirm, follow or operate; a token alone may do everything. Lines that begin with # are comments.
// ReadTokens refuses a file that everyone on the machine can read, and one without a token
// that may operate: the processes of a sale show it to each other. Where the server is open,
// so that other machines reach it, it refuses a token that can be guessed. Without a path
// it returns nil.
func ReadTokens(path string, open bool) (*Tokens, error) {
	if path == "" {
		return nil, nil
	}
	t := &Tokens{path: path, open: open}
	if _, err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// ReadToken returns the first token of a file, for a client. Without a path there is none.
func ReadToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	set, err := readTokenSet(path, false)
	if err != nil {
		return "", err
	}
	return set.all[0].text, nil
}

// Reload reads the file again: from then on its tokens are valid, and no others. If it is not usable, the
// previous ones remain. changed reports whether the content is another one.
func (tokens *Tokens) Reload() (changed bool, err error) {
	set, err := readTokenSet(tokens.path, tokens.open)
	if err != nil {
		return false, err
	}
	if set.shown() == "" {
		return false, fmt.Errorf("%w: no token in %s may operate, and the processes of a sale show each other the first that may; "+
			"write a line with a token alone, or with \"operate\" behind it", ErrBadToken, tokens.path)
	}
	if before := tokens.set.Load(); before != nil && bytes.Equal(before.content, set.content) {
		return false, nil
	}
	tokens.set.Store(set)
	return true, nil
}

// String names the file.
func (tokens *Tokens) String() string { return "token file " + tokens.path }

// Shown returns the token that this process shows to the others of a sale: the first that may
// operate. Without tokens it is "".
func (tokens *Tokens) Shown() string {
	if tokens == nil {
		return ""
	}
	return tokens.set.Load().shown()
}

func (set *tokenSet) shown() string {
	for _, t := range set.all {
		if t.rights&MayOperate != 0 {
			return t.text
		}
	}
	return ""
}

func readTokenSet(path string, open bool) (*tokenSet, error) {
	content, err := readSecret("token file", path, maxTokens, ErrBadToken)
	if err != nil {
		return nil, err
	}
	return parseTokens(path, content, open)
}

func parseTokens(path string, content []byte, open bool) (*tokenSet, error) {
	set := &tokenSet{content: content}
	at := make(map[string]int) // lines, by token
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		text, words, _ := strings.Cut(line, " ")
		rights, known := parseRights(words)
		switch {
		case len(text) > maxToken:
			return nil, fmt.Errorf("%w: the token in line %d of %s has more than %d bytes", ErrBadToken, number, path, maxToken)
		case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("%w: the token in line %d of %s must be visible ASCII characters", ErrBadToken, number, path)
		case open && len(text) < leastToken:
			return nil, fmt.Errorf("%w: the token in line %d of %s has %d bytes, and at least %d are needed where other machines can show one; make one, for instance by: openssl rand -hex 20",
				ErrBadToken, number, path, len(text), leastToken)
		case at[text] > 0:
			return nil, fmt.Errorf("%w: line %d of %s has the token of line %d again", ErrBadToken, number, path, at[text])
		case !known:
			return nil, fmt.Errorf("%w: behind the token in line %d of %s may be its rights, claim, confirm, follow or operate, and nothing else", ErrBadToken, number, path)
		}
		at[text] = number
		set.all = append(set.all, token{text, sha256.Sum256([]byte(text)), rights})
	}
	switch {
	case len(set.all) == 0:
		return nil, fmt.Errorf("%w: %s has no token; write a random one into it, for instance by: openssl rand -hex 32 > %s", ErrBadToken, path, path)
	case len(set.all) > mostTokens:
		return nil, fmt.Errorf("%w: %s has %d tokens, at most %d are allowed", ErrBadToken, path, len(set.all), mostTokens)
	}
	return set, nil
}

// parseRights returns the rights that follow a token, all if there are none; false: one is unknown.
func parseRights(words string) (rights Rights, known bool) {
	for word := range strings.FieldsSeq(words) {
		right, known := rightsByWord[word]
		if !known {
			return 0, false
		}
		rights |= right
	}
	if rights == 0 {
		return MayAll, true
	}
	return rights, true
}

// rights returns those of the token with that digest. It compares the digests of all tokens, so that the
// time that it takes tells nothing, not even a length.
func (set *tokenSet) rights(digest *[sha256.Size]byte) Rights {
	var rights Rights
	for i := range set.all {
		same := subtle.ConstantTimeCompare(digest[:], set.all[i].digest[:])
		rights |= set.all[i].rights & -Rights(same)
	}
	return rights
}

// Grant is what the sender of requests may do, by the token that was sent. The zero Grant is that of
// a server without tokens: everything is permitted. One goroutine uses it.
type Grant struct {
	tokens *Tokens
	set    *tokenSet // by which the rights were found
	digest [sha256.Size]byte
	found  Rights
}

// OfRequest returns the grant of the token that a request has in its header Authorization.
func (tokens *Tokens) OfRequest(r *http.Request) Grant {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if tokens != nil && !strings.EqualFold(scheme, "Bearer") {
		return Grant{tokens: tokens}
	}
	return tokens.OfToken(strings.TrimSpace(token))
}

// OfToken returns the grant of a token.
func (tokens *Tokens) OfToken(token string) Grant {
	if tokens == nil {
		return Grant{}
	}
	g := Grant{tokens: tokens, digest: sha256.Sum256([]byte(token))}
	return g.Renewed()
}

// Renewed returns the grant of the same token by the newest file. Unlike Rights it may be called while
// another goroutine uses the grant.
func (grant *Grant) Renewed() Grant {
	if grant.tokens == nil {
		return Grant{}
	}
	set := grant.tokens.set.Load()
	return Grant{tokens: grant.tokens, set: set, digest: grant.digest, found: set.rights(&grant.digest)}
}

// Token returns the digest of the token; ok is false if the server asks for none.
func (grant *Grant) Token() (digest [sha256.Size]byte, ok bool) {
	return grant.digest, grant.tokens != nil
}

// Rights returns the rights of the token by the newest file: none, if it was removed.
func (grant *Grant) Rights() Rights {
	if grant.tokens == nil {
		return MayAll
	}
	if now := grant.tokens.set.Load(); grant.set != nil && grant.set != now {
		grant.set, grant.found = now, now.rights(&grant.digest)
	}
	return grant.found
}

// May returns nil if the token has the right or, of MayAll, any right, and else the problem that the response
// has.
func (grant *Grant) May(needs Rights) *wire.Problem {
	switch has := grant.Rights(); {
	case has == 0:
		return wire.NewProblem(http.StatusUnauthorized, "Send a token of the server as \"Authorization: Bearer <token>\".")
	case has&needs == 0:
		return &wire.Problem{Status: http.StatusForbidden, Title: "Forbidden", Scope: wordOf[needs],
			Detail: fmt.Sprintf("The token has not the right to %s, which this request needs.", wordOf[needs])}
	}
	return nil
}
