package spec

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// loadMetadata loads a sale with more under its metadata than the name.
func loadMetadata(metadata string) ([]Sale, error) {
	sales, _, err := Load([]string{"-"}, strings.NewReader("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets, "+metadata+
		"}\nspec: {stock: 100, lockCount: 5, embedded: {}}\n"))
	return sales, err
}

// Labels and annotations are as they are written, and no part of what is declared.
func TestLabels(t *testing.T) {
	sales, _, err := Load([]string{goodSpecs + "/labels.yaml"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"team": "cinema", "example.com/stage": "Live.2_b-3", "tickets.example.com/0": "1", "empty": ""}; !maps.Equal(sales[0].Labels, want) {
		t.Errorf("the labels are %q", sales[0].Labels)
	}
	want := map[string]string{
		"example.com/contact": "Ada, ada@example.com", "runbook": "Pause it, then call Ada.\n\nWhatever is left is refunded.\n", "empty": "",
	}
	if !maps.Equal(sales[0].Annotations, want) {
		t.Errorf("the annotations are %q", sales[0].Annotations)
	}
	bare, err := loadMetadata("run: 1")
	if err != nil {
		t.Fatal(err)
	}
	with, err1 := sales[0].JSON()
	without, err2 := bare[0].JSON()
	if err1 != nil || err2 != nil || string(with) != string(without) {
		t.Errorf("with labels the declaration is\n%s, %v, and without\n%s, %v", with, err1, without, err2)
	}
}

// A name may have 63 characters, what is before it 253, and all annotations together 256 KiB.
func TestLabelLimits(t *testing.T) {
	name, prefix := strings.Repeat("n", MaxLabelName), strings.Repeat("p", MaxLabelPrefix)
	if sales, err := loadMetadata(fmt.Sprintf("labels: {%s/%s: %s}", prefix, name, name)); err != nil || sales[0].Labels[prefix+"/"+name] != name {
		t.Errorf("the longest label: %v", err)
	}
	for over, most := range []int{MaxAnnotations, MaxAnnotations + 1} {
		_, err := loadMetadata(fmt.Sprintf("annotations: {a: %s, bc: %s}", strings.Repeat("x", 1000), strings.Repeat("y", most-1000-len("abc"))))
		if problems := Problems(err); len(problems) != over || over > 0 &&
			problems[0].Message != "metadata.annotations has 262145 bytes, at most 262144 are allowed" {
			t.Errorf("annotations of %d bytes: %v", most, problems)
		}
	}
}
