package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"salectl/sim/models"
)

const (
	protocolPage  = "protocol.md"
	protocolBegin = "<!-- Made from sim/models: go generate ./docs -->\n"
	protocolEnd   = "<!-- End -->\n"
)

// The page lists the rules that the models hold, and what happens without each.
func TestProtocolPage(t *testing.T) {
	text, err := os.ReadFile(protocolPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(text), protocolBegin)
	_, tail, ends := strings.Cut(rest, protocolEnd)
	if !begins || !ends {
		t.Fatalf("docs/%s has no part between %q and %q", protocolPage, protocolBegin, protocolEnd)
	}
	want := head + protocolBegin + rules(readPage(t, "docs/design.md")) + protocolEnd + tail
	if *update {
		if err := os.WriteFile(protocolPage, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("docs/%s is not what the models say: go generate ./docs", protocolPage)
	}
}

// rules returns a list for each model. A marked rule is a link to the section of design.md that
// has its sentence.
func rules(design page) string {
	var text strings.Builder
	for _, m := range models.All() {
		fmt.Fprintf(&text, "\n### %s\n\n%s.\n\n", m.Name, strings.ToUpper(m.About[:1])+m.About[1:])
		for _, r := range m.Rules {
			says := ": " + r.Text
			if r.Marked {
				says = " [◆](design.md#" + markedSection(design, r.Text) + ")"
			}
			fmt.Fprintf(&text, "- `%s`%s → %s\n", r.Name, says, r.Without)
		}
	}
	text.WriteString("\n")
	return text.String()
}

// markedSection returns the name of the section of design.md that has the sentence; "" if none
// has, which TestMarkedSentences reports.
func markedSection(design page, sentence string) (name string) {
	for _, line := range design.lines {
		if strings.HasPrefix(line, "#") {
			name = sectionName(strings.TrimLeft(line, "#"))
		}
		if strings.Contains(line, sentence+" ◆") {
			return name
		}
	}
	return ""
}

// A sentence of design.md with a ◆ behind it is a rule of a model, and the other way
// round.
func TestMarkedSentences(t *testing.T) {
	text, err := os.ReadFile("design.md")
	if err != nil {
		t.Fatal(err)
	}
	design := string(text)
	marked := map[string]bool{}
	for _, m := range models.All() {
		for _, r := range m.Rules {
			if !r.Marked {
				continue
			}
			if marked[r.Text] = true; !strings.Contains(design, r.Text+" ◆") {
				t.Errorf("design.md does not have the rule %s of the model %s, with a ◆ behind it: %s", r.Name, m.Name, r.Text)
			}
		}
	}
	// Once more where it says what the mark means.
	if n := strings.Count(design, "◆") - 1; n != len(marked) {
		t.Errorf("design.md has %d sentences with a ◆, the models have %d rules of it", n, len(marked))
	}
}
