// Package docs tests the pages: that their commands work, that their tables say
// what the code says, and that their links lead somewhere.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readmeWords is how long the README may be: one page.
const readmeWords = 900

// page is a page for readers, by its path from the repository's folder.
type page struct {
	path  string
	lines []string
}

// pages returns the README first, and then the pages of docs in the order in which
// the README names them.
func pages(t *testing.T) []page {
	t.Helper()
	all := []page{readPage(t, "README.md")}
	for _, link := range links(all[0]) {
		if filepath.Dir(link) == "docs" && filepath.Ext(link) == ".md" && !has(all, link) {
			all = append(all, readPage(t, link))
		}
	}
	files, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if path := filepath.Join("docs", file); !has(all, path) {
			t.Errorf("the README does not name %s", path)
			all = append(all, readPage(t, path))
		}
	}
	return all
}

func has(all []page, path string) bool {
	return slices.ContainsFunc(all, func(p page) bool { return p.path == path })
}

func readPage(t *testing.T, path string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return page{path, strings.Split(string(text), "\n")}
}

// block is a fenced block of a page.
type block struct {
	page, language string
	line           int // of its first line, from 1
	text           string
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// blocks returns the fenced blocks of a page.
func blocks(p page) (all []block) {
	inside := false
	for i, line := range p.lines {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && inside:
			inside = false
		case isFence:
			inside = true
			all = append(all, block{page: p.path, language: fence, line: i + 2})
		case inside:
			all[len(all)-1].text += line + "\n"
		}
	}
	return all
}

var linkForm = regexp.MustCompile(`\]\(([^)]+)\)`)

// links returns where a page's links lead, those into the web left out.
func links(p page) (all []string) {
	for _, match := range linkForm.FindAllStringSubmatch(strings.Join(p.lines, "\n"), -1) {
		if !strings.Contains(match[1], "://") {
			all = append(all, match[1])
		}
	}
	return all
}

func TestReadmeIsOnePage(t *testing.T) {
	words := len(strings.Fields(strings.Join(readPage(t, "README.md").lines, "\n")))
	if words > readmeWords {
		t.Errorf("README.md has %d words, at most %d; move something into docs", words, readmeWords)
	}
}

func TestLinksLeadSomewhere(t *testing.T) {
	for _, p := range append(pages(t), readPage(t, "CONTRIBUTING.md"), readPage(t, "CHANGELOG.md"), readPage(t, "examples/shop/README.md")) {
		for _, link := range links(p) {
			path, section, _ := strings.Cut(link, "#")
			target := filepath.Join(filepath.Dir(p.path), path)
			if path == "" {
				target = p.path
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: %s: %v", p.path, link, err)
			} else if section != "" && !slices.Contains(sections(readPage(t, target)), section) {
				t.Errorf("%s: %s has no section #%s", p.path, target, section)
			}
		}
	}
}

// sections returns the names by which links lead to a page's headings.
func sections(p page) (all []string) {
	for _, line := range p.lines {
		if heading := strings.TrimLeft(line, "#"); heading != line {
			all = append(all, sectionName(heading))
		}
	}
	return all
}

// The programs in other languages that a page shows are those of examples/integrate, which its
// tests run.
func TestPagesShowPrograms(t *testing.T) {
	for language, file := range map[string]string{"python": "buy.py", "ts": "buy.mts"} {
		program, err := os.ReadFile(filepath.Join("../examples/integrate", file))
		if err != nil {
			t.Fatal(err)
		}
		shown := slices.ContainsFunc(blocks(readPage(t, "docs/integrate.md")), func(b block) bool {
			return b.language == language && b.text == string(program)
		})
		if !shown {
			t.Errorf("docs/integrate.md does not show examples/integrate/%s as it is", file)
		}
	}
}

// sectionName returns the name by which links lead to a heading.
func sectionName(heading string) string {
	name := strings.ToLower(strings.TrimSpace(heading))
	name = regexp.MustCompile("[^a-z0-9 -]").ReplaceAllString(name, "")
	return strings.ReplaceAll(name, " ", "-")
}
