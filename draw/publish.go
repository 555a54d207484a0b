package draw

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// Publish reads an export and writes the list that can be published: what Verify needs and
// nothing else. The header keeps the sale, the run and the draw; each entry has its claim,
// state, time, label and rank. The list has no users, keys, payments or reasons, and no
// commits, which contain all of these in base64.
func Publish(from io.Reader, to io.Writer) error {
	w := bufio.NewWriterSize(to, 1<<16)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	err := readExport(from, func(h exportHeader) error {
		h.Kind = kindEntries
		return lines.Encode(h)
	}, func(line Line) error {
		if _, err := parseClaim(line.Claim); err != nil {
			return err
		}
		if line.Label == (Digest{}) {
			return fmt.Errorf("claim %s: it has no label", line.Claim)
		}
		return lines.Encode(Line{Claim: line.Claim, State: line.State, At: line.At, Label: line.Label, Rank: line.Rank})
	})
	if err != nil {
		return err
	}
	return w.Flush()
}
