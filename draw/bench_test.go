package draw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

// BenchmarkVerify verifies a draw of 100,000 entries.
func BenchmarkVerify(b *testing.B) {
	const entries = 100_000
	record := Record{Closes: "2026-11-27T18:00:00Z", Shards: make([]Tree, 1)}
	var labels []Digest
	var lines bytes.Buffer
	to := json.NewEncoder(&lines)
	for i := range entries {
		line := Line{Claim: fmt.Sprintf("0-%d-0", i+2), User: fmt.Sprint("user", i), Key: "k", State: StateEntered, At: "2026-11-27T17:59:59.999999Z"}
		line.Label = Label(testUID, line.User, line.Key)
		labels = append(labels, line.Label)
		to.Encode(line)
	}
	record.Shards[0] = Tree{entries, Root(labels)}
	root, link := RootOf(record.Shards), Link(nil)
	record.Root, record.Link, record.Commitment = &root, &link, Terms{}.Commitment(testUID, link)
	header, _ := json.Marshal(map[string]any{"format": exportFormat, "kind": kindExport, "uid": testUID, "draw": record})
	export := append(append(header, '\n'), lines.Bytes()...)
	for b.Loop() {
		if r, err := Verify(bytes.NewReader(export), Options{}); err != nil || !r.OK {
			b.Fatal(err, r)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}
