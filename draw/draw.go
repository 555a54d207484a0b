// Package draw is the arithmetic of a sale that is a draw: which of its entries win, so
// that anybody can work it out again. The construction is that of
// draft-thomson-elegy-vrs, with HKDF and HMAC over SHA-256:
//
//  1. Before the first entry a commitment is published: to a secret, by the end of a hash
//     chain that begins with it, and to the terms of the draw (Terms).
//  2. Each entry has a label, which names nobody (Label). At the close the labels of a
//     shard are the leaves of a Merkle tree (Root), and the trees of all shards those of
//     another (RootOf). These are published before the secret's link is.
//  3. A key follows from that root, the link that is revealed and, if the sale declares
//     one, the value of a public beacon (NewOrder). The HMAC of a label under it is the
//     label's value, and the lowest values win.
//
// So the secret was fixed before the entries were known, the entries before the secret
// was, and neither can be changed afterwards without a hash that differs. Each entry's
// value is independent of the others, so that each shard finds its lowest by itself
// (Lowest).
//
// Nothing here does I/O but Verify, which reads an export.
package draw

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
)

// Digest is 32 bytes that came out of SHA-256, or HMAC with it. As text it is 64 hex digits.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes 64 hex digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 64 hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != 2*len(d) {
		return fmt.Errorf("%q is not a digest of %d hex digits", text, 2*len(d))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("%q is not a digest: %w", text, err)
	}
	return nil
}

// SecretLen is how many random bytes a secret has.
const SecretLen = 32

// Links is how many hashes lead from a secret to its commitment. What is revealed is the
// link before the commitment, and not the secret.
const Links = 2

// Link returns what a draw reveals of a secret: the last link before the commitment.
func Link(secret []byte) Digest {
	link := Digest(sha256.Sum256(secret))
	for range Links - 2 {
		link = sha256.Sum256(link[:])
	}
	return link
}

// Terms are what a commitment covers beside the secret. Whoever knows the secret could choose
// winners by choosing one of them later.
type Terms struct {
	Closes      string  // when the first generation closes, as an export writes times
	Substitutes int64   // ranks beyond the stock
	Beacon      *Beacon // nil: there is none; its value is not covered
}

// Commitment returns what is published before the first entry of a run.
func (t Terms) Commitment(uid string, link Digest) Digest {
	end, b := sha256.Sum256(link[:]), Beacon{}
	if t.Beacon != nil {
		b = *t.Beacon
	}
	return digestOf(termsPrefix, uid, string(end[:]), t.Closes, strconv.FormatInt(t.Substitutes, 10), b.Name, b.Round, b.Fallback)
}

// These texts never change: a draw could not be verified any more.
const (
	termsPrefix = "salectl commitment v2"
	labelPrefix = "salectl entry v1"
	keyPrefix   = "salectl draw v1"
)

// digestOf returns SHA-256 over texts, each after its length in eight bytes, so that no two lists of
// texts have the same bytes to be hashed.
func digestOf(texts ...string) Digest {
	size := 0
	for _, text := range texts {
		size += 8 + len(text)
	}
	b := make([]byte, 0, size)
	for _, text := range texts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	return sha256.Sum256(b)
}

// Label returns the label of an entry: the digest of four texts. Whoever does not know the key of the
// request cannot tell from a label who the user is.
func Label(uid, user, key string) Digest { return digestOf(labelPrefix, uid, user, key) }

// Order gives each label its value. It is not safe for concurrent use.
type Order struct{ mac hash.Hash }

// NewOrder returns the order of a run's entries: by the root of all shards' entries, the
// link that was revealed, and the beacon's value, nil if there is none.
func NewOrder(uid string, root, link Digest, beacon []byte) *Order {
	material := append(link[:len(link):len(link)], beacon...)
	prk, err := hkdf.Extract(sha256.New, material, root[:])
	if err != nil {
		panic(err) // SHA-256 is always there
	}
	key, err := hkdf.Expand(sha256.New, prk, keyPrefix+uid, sha256.Size)
	if err != nil {
		panic(err) // 32 bytes are within what HKDF can give
	}
	return &Order{hmac.New(sha256.New, key)}
}

// Value returns the value of a label. The entries are ranked by their values and, where
// two were the same, by their labels, the lowest first.
func (o *Order) Value(label Digest) (value Digest) {
	o.mac.Reset()
	o.mac.Write(label[:])
	o.mac.Sum(value[:0])
	return value
}
