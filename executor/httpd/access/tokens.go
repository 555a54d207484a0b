// Package access controls access to a server and limits its use of resources: tokens and their
// rights, TLS certificates, host names, and limits of connections, headers and memory.
//
// A token permits only what the newest usable token file grants. Tokens and Certificates are
// reloaded while they are in use, and an unusable file changes nothing. Log entries and errors
// contain no secret. Comparing tokens takes constant time.
//
// The package has no paths. Callers choose the right that a request needs and the requests that
// need no client certificate, and write the problem that Grant.May returns.
package access

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"salectl/executor/httpd/wire"
	"salectl/internal/files"
)

// Rights are the permissions of a token.
type Rights uint8

// Rights in a token file. A token with operate has all rights.
const (
	MayClaim   Rights = 1 << iota // claim, extend and cancel held claims, look up claims, read the state of the sale
	MayOperate                    // refund, drain, read the state of nodes and shards, link to the process
	MayFollow                     // follow the feed of the ledger
	MayConfirm                    // confirm the payment of a claim, record its return
)

// AllRights is the set of all rights.
const AllRights = MayClaim | MayOperate | MayFollow | MayConfirm

// rightsByWord maps the words of a token file to rights.
var rightsByWord = map[string]Rights{"claim": MayClaim, "confirm": MayConfirm, "follow": MayFollow, "operate": AllRights}

// wordOf maps a single required right to its word in a token file.
var wordOf = map[Rights]string{MayClaim: "claim", MayConfirm: "confirm", MayFollow: "follow", MayOperate: "operate"}

// ErrBadToken reports that a token file is unusable.
var ErrBadToken = errors.New("unusable token file")

// Limits of a token file. They reject files of another kind, and limit the cost of comparing a
// request with every token.
const (
	leastToken = 16 // bytes, if other machines can reach the server
	maxToken   = 4096
	mostTokens = 64
	maxTokens  = 64 << 10 // bytes
)

// Tokens are the bearer tokens that a server accepts. They can be reloaded while it serves. A nil
// *Tokens requires no token and permits everything.
type Tokens struct {
	path string
	open bool // other machines can reach the server
	set  atomic.Pointer[tokenSet]
}

// tokenSet is the content of a token file. It is immutable.
type tokenSet struct {
	content []byte
	all     []token
}

type token struct {
	text   string
	digest [sha256.Size]byte
	rights Rights
}

// ReadTokens reads a token file. Each line has a token in visible ASCII, optionally followed by its
// rights: claim, confirm, follow or operate. A token without rights has all. Lines that begin with
// # are comments. ReadTokens rejects a file that is readable by everyone on the machine, and one
// without a token that may operate, since the processes of a sale present it to each other. If the
// server is open to other machines it rejects short tokens. If path is "" it returns nil.
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

// ReadToken returns the first token of a file, for a client, or "" if path is "".
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

// Reload reads the file again and replaces the tokens. If it is unusable the previous tokens remain
// valid. changed reports whether the content differs.
func (tokens *Tokens) Reload() (changed bool, err error) {
	set, err := readTokenSet(tokens.path, tokens.open)
	if err != nil {
		return false, err
	}
	if set.shown() == "" {
		return false, fmt.Errorf("%w: no token in %s has the right operate, which the processes of a sale need to reach each other; "+
			"add a line with a token alone, or with \"operate\" after it", ErrBadToken, tokens.path)
	}
	if before := tokens.set.Load(); before != nil && bytes.Equal(before.content, set.content) {
		return false, nil
	}
	tokens.set.Store(set)
	return true, nil
}

// String returns the name of the file.
func (tokens *Tokens) String() string { return "token file " + tokens.path }

// Shown returns the token that this process presents to the others of a sale: the first that may
// operate. It is "" without tokens.
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
	content, err := readFile(files.ReadSecret, "token file", path, maxTokens, ErrBadToken)
	if err != nil {
		return nil, err
	}
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
		rights := parseRights(words)
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
		case rights == 0:
			return nil, fmt.Errorf("%w: after the token in line %d of %s only its rights may follow: claim, confirm, follow or operate", ErrBadToken, number, path)
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

// parseRights returns the rights after a token: all if there is no word, and none if one is unknown.
func parseRights(words string) (rights Rights) {
	for word := range strings.FieldsSeq(words) {
		if rightsByWord[word] == 0 {
			return 0
		}
		rights |= rightsByWord[word]
	}
	return cmp.Or(rights, AllRights)
}

// rights returns the rights of the token with a digest. It compares all digests, so that its
// duration reveals nothing, not even a length.
func (set *tokenSet) rights(digest *[sha256.Size]byte) Rights {
	var rights Rights
	for i := range set.all {
		same := subtle.ConstantTimeCompare(digest[:], set.all[i].digest[:])
		rights |= set.all[i].rights & -Rights(same)
	}
	return rights
}

// Grant is the permission of a sender of requests, based on its token. The zero Grant permits
// everything, as of a server without tokens. It is not safe for concurrent use.
type Grant struct {
	tokens *Tokens
	set    *tokenSet // tokens that the rights were found in
	digest [sha256.Size]byte
	found  Rights
}

// OfRequest returns the grant of the token in a request's Authorization header.
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

// Renewed returns the grant of the same token by the newest file. Unlike Rights it may be called
// while another goroutine uses the grant.
func (grant *Grant) Renewed() Grant {
	if grant.tokens == nil {
		return Grant{}
	}
	set := grant.tokens.set.Load()
	return Grant{tokens: grant.tokens, set: set, digest: grant.digest, found: set.rights(&grant.digest)}
}

// Token returns the digest of the token; ok is false if the server requires none.
func (grant *Grant) Token() (digest [sha256.Size]byte, ok bool) {
	return grant.digest, grant.tokens != nil
}

// Rights returns the rights of the token by the newest file: none if it was removed.
func (grant *Grant) Rights() Rights {
	if grant.tokens == nil {
		return AllRights
	}
	if now := grant.tokens.set.Load(); grant.set != nil && grant.set != now {
		grant.set, grant.found = now, now.rights(&grant.digest)
	}
	return grant.found
}

// May returns nil if the token has one of the rights needs, and otherwise the problem to respond with.
func (grant *Grant) May(needs Rights) *wire.Problem {
	switch has := grant.Rights(); {
	case has == 0:
		return wire.NewProblem(http.StatusUnauthorized, "Send a token of the server as \"Authorization: Bearer <token>\".")
	case has&needs == 0:
		p := wire.NewProblem(http.StatusForbidden, fmt.Sprintf("This request needs a token with the right %s.", wordOf[needs]))
		p.Scope = wordOf[needs]
		return p
	}
	return nil
}
