package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"time"
)

// tracer takes down every event of a world: as a hash, by which two runs of one
// seed are the same run, and as text if somebody reads it.
type tracer struct {
	hash   hash.Hash
	buffer []byte
	text   io.Writer // nil: nobody reads
	events int
}

func newTracer(text io.Writer) *tracer {
	return &tracer{hash: sha256.New(), buffer: make([]byte, 0, 8<<10), text: text}
}

// note takes down one event: who it is about, what happens, more for people, and
// the bytes that matter.
func (t *tracer) note(now time.Duration, who, what, more string, data []byte) {
	t.events++
	b := binary.BigEndian.AppendUint64(t.buffer, uint64(now))
	for _, s := range [3]string{who, what, more} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	b = append(binary.AppendUvarint(b, uint64(len(data))), data...)
	if len(b) > 4<<10 {
		t.hash.Write(b)
		b = b[:0]
	}
	t.buffer = b
	if t.text != nil {
		fmt.Fprintf(t.text, "%12.6f  %-12s %-28s %s\n", now.Seconds(), who, what, more)
	}
}

func (t *tracer) sum() (sum [sha256.Size]byte) {
	t.hash.Write(t.buffer)
	t.buffer = t.buffer[:0]
	t.hash.Sum(sum[:0])
	return sum
}
