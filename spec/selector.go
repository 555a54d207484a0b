package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Selector selects sales by their labels, as the label selectors of Kubernetes do: all its
// requirements must hold. The zero Selector selects all sales.
type Selector struct {
	text         string
	requirements []requirement
}

// requirement is a condition on one label. It holds if the label exists and, unless values is
// nil, its value is among values. not negates it.
type requirement struct {
	key    string
	values []string
	not    bool
}

// ParseSelector parses requirements separated by commas: key=value, key==value, key!=value,
// key in (a,b), key notin (a,b), key, !key. != and notin also hold if the label is absent. A
// value may be empty. The error is a clause about the text.
func ParseSelector(text string) (Selector, error) {
	s, p := Selector{text: text}, selectorParser{words: selectorWords(text)}
	for {
		r, err := p.requirement()
		if err != nil {
			return Selector{}, err
		}
		s.requirements = append(s.requirements, r)
		switch word := p.next(); word {
		case "":
			return s, nil
		case ",":
		default:
			return Selector{}, fmt.Errorf("%q stands where a comma or the end should", word)
		}
	}
}

// String returns the text that was parsed.
func (s Selector) String() string { return s.text }

// Matches reports whether the selector selects a sale with these labels.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s.requirements {
		value, there := labels[r.key]
		if holds := there && (r.values == nil || slices.Contains(r.values, value)); holds == r.not {
			return false
		}
	}
	return true
}

// selectorSigns are the characters of operators and separators.
const selectorSigns = "=!(),<>"

// selectorWords splits text into non-empty words.
func selectorWords(text string) (words []string) {
	for {
		if text = strings.TrimLeft(text, " \t\r\n"); text == "" {
			return words
		}
		length := strings.IndexAny(text, selectorSigns+" \t\r\n")
		switch {
		case strings.HasPrefix(text, "==") || strings.HasPrefix(text, "!="):
			length = 2
		case length == 0:
			length = 1
		case length < 0:
			length = len(text)
		}
		words, text = append(words, text[:length]), text[length:]
	}
}

// selectorParser holds the words that are not parsed yet.
type selectorParser struct{ words []string }

// peek returns the next word, "" at the end.
func (p *selectorParser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

func (p *selectorParser) next() string {
	word := p.peek()
	if word != "" {
		p.words = p.words[1:]
	}
	return word
}

func (p *selectorParser) requirement() (r requirement, err error) {
	if p.peek() == "!" {
		p.next()
		r.not = true
	}
	if r.key, err = p.key(); err != nil || r.not {
		return r, err
	}
	switch word := p.peek(); word {
	case "=", "==", "!=", "in", "notin":
		p.next()
		r.not = word == "!=" || word == "notin"
		if r.values, err = p.values(strings.HasSuffix(word, "in")); err != nil {
			return r, fmt.Errorf("%s: %w", r.key, err)
		}
	case "<", ">":
		return r, fmt.Errorf("%s: labels are not compared as numbers", r.key)
	}
	return r, nil
}

func (p *selectorParser) key() (string, error) {
	switch word := p.next(); {
	case word == "":
		return "", errors.New("a key is missing at the end")
	case strings.Contains(selectorSigns, word[:1]):
		return "", fmt.Errorf("%q stands where a key should", word)
	default:
		if f := checkLabelKey(word); f != nil {
			return "", fmt.Errorf("%q %s", word, f.message)
		}
		return word, nil
	}
}

// values parses one value, or several in parentheses.
func (p *selectorParser) values(several bool) (values []string, err error) {
	if several && p.next() != "(" {
		return nil, errors.New("its values should stand in parentheses, with commas between them")
	}
	for {
		value := ""
		if word := p.peek(); word != "" && !strings.Contains(selectorSigns, word[:1]) {
			value = p.next()
		}
		if f := checkLabelValue(value); f != nil {
			return nil, fmt.Errorf("%q %s", value, f.message)
		}
		values = append(values, value)
		if !several {
			return values, nil
		}
		switch p.next() {
		case ")":
			return values, nil
		case ",":
		default:
			return nil, errors.New("its values should end with a parenthesis, and have commas between them")
		}
	}
}
