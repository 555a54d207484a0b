// Package draw computes which entries of a sale that is a draw win, so that anyone can
// verify the result. The construction is that of draft-thomson-elegy-vrs, with HKDF and
// HMAC over SHA-256:
//
//  1. Before the first entry a commitment is published: to a secret, by the end of a hash
//     chain that begins with it, and to the terms of the draw (Terms).
//  2. Each entry has a label, which does not reveal the user (Label). At the close the
//     labels of a shard are the leaves of a Merkle tree (Root), and the trees of all shards
//     the leaves of another (RootOf). These are published before the secret's link is.
//  3. A key follows from that root, the revealed link and, if the sale declares one, the
//     value of a public beacon (NewOrder). The HMAC of a label under it is the label's
//     value, and the lowest values win.
//
// So the secret is fixed before the entries are known, and the entries before the secret is
// revealed. Neither can be changed afterwards without a different hash. The value of each
// entry is independent of the others, so the lowest of each shard are found separately
// (Order.Lowest).
//
// Only Verify and Publish do I/O: they read an export.
package draw

import (
	"bytes"
	"cmp"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strconv"
)

// Digest is 32 bytes of SHA-256, or of HMAC with it. Its text form is 64 hex digits.
type Digest [sha256.Size]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns 64 hex digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses 64 hex digits.
func (d *Digest) UnmarshalText(text []byte) error {
	if len(text) != 2*len(d) {
		return fmt.Errorf("%q is not a digest of %d hex digits", text, 2*len(d))
	}
	if _, err := hex.Decode(d[:], text); err != nil {
		return fmt.Errorf("%q is not a digest: %w", text, err)
	}
	return nil
}

// SecretLen is the number of random bytes in a secret.
const SecretLen = 32

// Link returns the link that a draw reveals of a secret, and not the secret: the hash whose own hash is
// committed to.
func Link(secret []byte) Digest { return sha256.Sum256(secret) }

// Terms are what a commitment covers beside the secret. Otherwise a holder of the secret
// could choose winners by choosing a term later.
type Terms struct {
	Closes      string  // closing time of the first generation, in the format of an export
	Substitutes int64   // ranks beyond the stock
	Beacon      *Beacon // nil: none; its value is not covered
}

// Commitment returns the commitment to publish before the first entry of a run.
func (t Terms) Commitment(uid string, link Digest) Digest {
	end, b := sha256.Sum256(link[:]), Beacon{}
	if t.Beacon != nil {
		b = *t.Beacon
	}
	return digestOf(termsPrefix, uid, string(end[:]), t.Closes, strconv.FormatInt(t.Substitutes, 10), b.Name, b.Round, b.Fallback)
}

// These texts must never change: a draw could not be verified any more.
const (
	termsPrefix = "salectl commitment v2"
	labelPrefix = "salectl entry v1"
	keyPrefix   = "salectl draw v1"
)

// digestOf returns the SHA-256 of texts, each preceded by its length in eight bytes, so that no two
// lists of texts are hashed as the same bytes.
func digestOf(texts ...string) Digest {
	b := make([]byte, 0, 256) // enough for most labels
	for _, text := range texts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	return sha256.Sum256(b)
}

// Label returns the label of an entry: the digest of four texts. It does not reveal the user to a
// reader without the key of the request.
func Label(uid, user, key string) Digest { return digestOf(labelPrefix, uid, user, key) }

// Order computes the value of each label. It is not safe for concurrent use.
type Order struct{ mac hash.Hash }

// NewOrder returns the order of a run's entries, given the root of all shards' entries, the
// revealed link, and the beacon's value, nil if there is none.
func NewOrder(uid string, root, link Digest, beacon []byte) *Order {
	material := append(link[:len(link):len(link)], beacon...)
	prk, err := hkdf.Extract(sha256.New, material, root[:])
	if err != nil {
		panic(err) // SHA-256 is always there
	}
	key, err := hkdf.Expand(sha256.New, prk, keyPrefix+uid, sha256.Size)
	if err != nil {
		panic(err) // 32 bytes are within the limit of HKDF
	}
	return &Order{hmac.New(sha256.New, key)}
}

// Entry is an entry with its value, and the position of its claim in the ledger.
type Entry struct {
	Value, Label Digest
	Shard        int
	Slot         uint64
	Index        int // among the ops of its commit
}

// Compare returns a negative number if e is ranked before other, and a positive one if after.
func (e Entry) Compare(other Entry) int {
	return cmp.Or(bytes.Compare(e.Value[:], other.Value[:]), bytes.Compare(e.Label[:], other.Label[:]))
}

// Lowest computes the values of entries, and returns the most lowest entries in order. It overwrites
// entries. The result is the same if parts of the entries were reduced by Lowest before.
func (o *Order) Lowest(entries []Entry, most int64) []Entry {
	lowest, cut := entries[:0], false // cut: lowest[:most] are sorted, and others have been dropped
	for _, e := range entries {
		if e.Value = o.Value(e.Label); cut && (most == 0 || e.Compare(lowest[most-1]) > 0) {
			continue
		}
		if lowest = append(lowest, e); int64(len(lowest))/2 >= most {
			slices.SortFunc(lowest, Entry.Compare)
			lowest, cut = lowest[:most], true
		}
	}
	slices.SortFunc(lowest, Entry.Compare)
	return lowest[:min(most, int64(len(lowest)))]
}

// Value returns the value of a label. The entries are ranked by their values and, where
// two are the same, by their labels, the lowest first.
func (o *Order) Value(label Digest) (value Digest) {
	o.mac.Reset()
	o.mac.Write(label[:])
	o.mac.Sum(value[:0])
	return value
}
