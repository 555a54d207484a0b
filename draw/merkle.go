package draw

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// Tree is the Merkle tree of a shard's entries, as published at the close.
type Tree struct {
	Entries int64  `json:"entries"`
	Root    Digest `json:"root"`
}

// Root returns the Merkle root over labels in the order of a shard's log, as in RFC 6962:
// leaves are hashed after a byte 0, nodes after a byte 1, so that no node can be passed off
// as a leaf.
func Root(labels []Digest) Digest {
	leaves := make([]Digest, len(labels))
	for i, label := range labels {
		leaves[i] = leaf(label[:])
	}
	return fold(leaves)
}

// RootOf returns the root over the trees of all shards, in their order. A leaf is the
// number of a shard's entries in eight bytes, and the root of its tree.
func RootOf(trees []Tree) Digest {
	leaves := make([]Digest, len(trees))
	for i, tree := range trees {
		leaves[i] = leaf(append(binary.BigEndian.AppendUint64(nil, uint64(tree.Entries)), tree.Root[:]...))
	}
	return fold(leaves)
}

func leaf(data []byte) Digest { return sha256.Sum256(append([]byte{0}, data...)) }

// fold combines pairs into nodes until one is left, in place. The last of an odd row moves to
// the row above unchanged, which makes the tree that RFC 6962 splits from above.
func fold(row []Digest) Digest {
	if len(row) == 0 {
		return sha256.Sum256(nil)
	}
	var pair [1 + 2*sha256.Size]byte
	pair[0] = 1
	for len(row) > 1 {
		above := row[:0]
		for two := range slices.Chunk(row, 2) {
			if len(two) == 2 {
				copy(pair[1:], two[0][:])
				copy(pair[1+sha256.Size:], two[1][:])
				two[0] = sha256.Sum256(pair[:])
			}
			above = append(above, two[0])
		}
		row = above
	}
	return row[0]
}
