package spec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Selector chooses sales by their labels, as the label selectors of Kubernetes do: every
// one of its requirements has to hold. The zero Selector has none, and chooses all.
type Selector struct {
	text         string
	requirements []requirement
}

// requirement is one that a selector makes of one label. Without not it holds if there is
// the label, and its value is among values if these are not nil; with not, if it would not.
type requirement struct {
	key    string
	values []string
	not    bool
}

// ParseSelector reads requirements with commas between them: key=value, key==value,
// key!=value, key in (a,b), key notin (a,b), key, !key. What is not equal or not in need
// not be there. A value may be empty. The error is a clause about the text.
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

// String is the text that the selector was read from.
func (s Selector) String() string { return s.text }

// Matches reports whether the selector chooses a sale that has these labels.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s.requirements {
		value, there := labels[r.key]
		if holds := there && (r.values == nil || slices.Contains(r.values, value)); holds == r.not {
			return false
		}
	}
	return true
}

// selectorSigns are the characters that are words of their own, or parts of one.
const selectorSigns = "=!(),<>"

// selectorWords splits text into words. None is empty.
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

// selectorParser has the words that were not read yet.
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

// values reads one value, or several in parentheses.
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
