package draw

import (
	"crypto/sha256"
	"encoding/binary"
)

// Tree is what a shard publishes of its entries at the close.
type Tree struct {
	Entries int64  `json:"entries"`
	Root    Digest `json:"root"`
}

// Root returns the Merkle root over labels in the order of a shard's log, as RFC 6962 has
// it: leaves are hashed behind a byte 0, nodes behind a byte 1, so that no node can be
// passed off as a leaf.
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

// fold makes nodes of pairs until one is left, in place. What is left over of an odd row
// stands in the row above as it is: that is the tree that RFC 6962 splits from above.
func fold(row []Digest) Digest {
	if len(row) == 0 {
		return sha256.Sum256(nil)
	}
	var pair [1 + 2*sha256.Size]byte
	pair[0] = 1
	for len(row) > 1 {
		n := 0
		for i := 0; i+1 < len(row); i += 2 {
			copy(pair[1:], row[i][:])
			copy(pair[1+sha256.Size:], row[i+1][:])
			row[n] = sha256.Sum256(pair[:])
			n++
		}
		if len(row)%2 == 1 {
			row[n] = row[len(row)-1]
			n++
		}
		row = row[:n]
	}
	return row[0]
}
