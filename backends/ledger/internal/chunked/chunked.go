// Package chunked has a list for millions of small records. It keeps them in chunks of a fixed
// size, so that a list that grows neither copies what it has nor needs both copies at once. A
// list is not safe for concurrent use.
package chunked

// List is a list that copies nothing when it grows beyond its first chunk.
// A pointer into it is good until the next Add.
type List[T any] struct {
	chunks [][]T
}

const chunkLen = 1 << 10

// Len returns how many elements there are.
func (l *List[T]) Len() int {
	if len(l.chunks) == 0 {
		return 0
	}
	return (len(l.chunks)-1)*chunkLen + len(l.chunks[len(l.chunks)-1])
}

// At returns the element with an index below Len.
func (l *List[T]) At(i uint32) *T { return &l.chunks[i/chunkLen][i%chunkLen] }

// Add appends an element and returns its index.
func (l *List[T]) Add(v T) uint32 {
	n := l.Len()
	switch {
	case n == 0:
		l.chunks = append(l.chunks, nil) // grows as it fills: most shards stay small
	case n%chunkLen == 0:
		l.chunks = append(l.chunks, make([]T, 0, chunkLen))
	}
	last := len(l.chunks) - 1
	l.chunks[last] = append(l.chunks[last], v)
	return uint32(n)
}
