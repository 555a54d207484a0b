package spec

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// YAML converts a declaration to a document that Load reads as an equal declaration, if its
// paths are relative to the working directory. Defaults are omitted. A file without a known
// name gets a name in capitals, with a comment. YAML fails for a Sale that Load would reject,
// or whose homes no document can name.
func (s Sale) YAML() ([]byte, error) {
	if err := s.sane(); err != nil {
		return nil, err
	}
	if s.Homes != nil {
		return nil, fmt.Errorf("no document names the place of the sale: %s", s.Homes.Ledger.Place)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	document, err := root().node(reflect.ValueOf(s.written()))
	if err != nil {
		return nil, err
	}
	if err := e.Encode(document); err != nil {
		return nil, err
	}
	var missing []string

	root().walk("", func(_ string, o *option) {
		if o.unstored != "" && bytes.Contains(b.Bytes(), []byte(o.unstored)) {
			missing = append(missing, o.unstored)
		}
	})
	if len(missing) == 0 {
		return b.Bytes(), nil
	}
	return append(fmt.Appendf(nil, "# The ledger does not have the paths of files: put yours in place of %s.\n", strings.Join(missing, ", ")), b.Bytes()...), nil
}

// node returns the mapping of a struct. It omits defaults.
func (b *block) node(v reflect.Value) (*yaml.Node, error) {
	mapping := &yaml.Node{Kind: yaml.MappingNode}
	for _, o := range b.options {
		value, err := o.node(v)
		if err != nil {
			return nil, err
		}
		if value != nil {
			mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: o.key}, value)
		}
	}
	return mapping, nil
}

// node returns the value of the option of a struct; nil: it is omitted.
func (o *option) node(of reflect.Value) (*yaml.Node, error) {
	switch {
	case o.constant != "":
		return &yaml.Node{Kind: yaml.ScalarNode, Value: o.constant}, nil
	case o.field == nil:
		if below, err := o.inner.node(of); err != nil || len(below.Content) > 0 {
			return below, err
		}
		return nil, nil
	}
	switch v := o.value(of); {
	case !o.required && o.isAbsent(v):
		return nil, nil
	case o.inner == nil:
		n := new(yaml.Node)
		return n, n.Encode(o.written(v, of))
	case v.Kind() == reflect.Slice:
		list := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			item, err := o.inner.node(v.Index(i))
			if err != nil {
				return nil, err
			}
			list.Content = append(list.Content, item)
		}
		return list, nil
	default:
		return o.inner.node(v.Elem())
	}
}

// written returns the value of the option of a struct as a document has it.
func (o *option) written(v, of reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Time:
		return x.Format(time.RFC3339Nano)
	case int64:
		if packet, ok := of.Interface().(RedPacket); ok {
			return packet.Format(x)
		}
	}
	return v.Interface()
}
