package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"
)

// group is a group of options of a block, of which exactly one must be there.
type group struct {
	name    string
	any     bool // one or more
	options []*option
}

// group adds the option to the group of its tag oneof or anyof.
func (b *block) group(o *option, oneOf, anyOf string) {
	for _, name := range []string{oneOf, anyOf} {
		i := slices.IndexFunc(b.groups, func(g *group) bool { return g.name == name })
		switch {
		case name == "":
			continue
		case i < 0:
			o.group = &group{name: name, any: anyOf != ""}
			b.groups = append(b.groups, o.group)
		default:
			o.group = b.groups[i]
		}
		o.group.options = append(o.group.options, o)
	}
}

// neither lists the keys of the group, of which none is there.
func (g *group) neither() string { return "neither " + listed(keysOf(g.options), " nor ") }

// adding returns the remedy that adds one of the options, without a full stop.
func adding(options []*option) string {
	var all []string
	for _, o := range options {
		text := o.key
		switch {
		case o.add != "":
			text = o.add
		case o.example != "" && o.typ.Kind() == reflect.Slice:
			text = fmt.Sprintf("%s: [%q]", o.key, o.example)
		case o.example != "":
			text = o.key + ": " + quoted(o.example)
		}
		all = append(all, text)
	}
	return "Add " + strings.Join(all, "; or ")
}

// companions returns the options of which one must be there if o is.
func (b *block) companions(o *option) (all []*option) {
	for _, key := range o.with {
		all = append(all, b.option(key))
	}
	return all
}

// related reports keys of a mapping that exclude each other, and those that are missing.
func (d *decoder) related(o object, b *block) {
	there := func(opt *option) bool {
		return o.keys[opt.key] != nil && target(o.values[opt.key]).Value != "false"
	}
	for _, g := range b.groups {
		var found []*yaml.Node
		for _, opt := range g.options {
			if there(opt) {
				found = append(found, o.keys[opt.key])
			}
		}
		at := o.at
		if with := b.companions(g.options[0]); len(with) > 0 {
			if at = o.keys[with[0].key]; at == nil {
				continue
			}
		}
		switch {
		case len(found) == 0 && !o.merged:
			d.refuse(at, adding(g.options)+".", "%s has %s", o.path, g.neither())
			return
		case len(found) > 1 && !g.any:
			d.beside(o, found[0], found[1], "Keep one of them.")
			return
		}
	}
	for _, opt := range b.options {
		with := b.companions(opt)
		if at := o.keys[opt.key]; at != nil && len(with) > 0 && !o.merged && !slices.ContainsFunc(with, there) {
			d.refuse(at, fmt.Sprintf("%s, or remove %s.", adding(with), opt.key),
				"%s needs %s", join(o.path, opt.key), strings.Join(opt.with, " or "))
		}
	}
}

// relate requires in a schema what related does, except for groups that depend on another option.
func (b *block) relate(s *jsonschema.Schema) {
	one := func(options []*option) (all []*jsonschema.Schema) {
		for _, o := range options {
			all = append(all, &jsonschema.Schema{Required: []string{o.key}})
		}
		return all
	}
	for _, g := range b.groups {
		switch {
		case len(g.options[0].with) > 0:
		case g.any:
			s.AnyOf = one(g.options)
		default:
			s.OneOf = one(g.options)
		}
	}
	for _, o := range b.options {
		if len(o.with) > 0 {
			if s.DependentSchemas == nil {
				s.DependentSchemas = map[string]*jsonschema.Schema{}
			}
			s.DependentSchemas[o.key] = &jsonschema.Schema{AnyOf: one(b.companions(o))}
		}
	}
}

// lacksName reports whether the option is a file of a stored declaration, which does not have its
// name: no other option of its group is there.
func (b *block) lacksName(v reflect.Value, o *option) bool {
	field := v.FieldByIndex(o.field)
	switch {
	case o.unstored == "":
		return false
	case field.Kind() == reflect.Slice:
		return !field.IsNil() && field.Len() == 0
	}
	for _, other := range o.group.options {
		if !v.FieldByIndex(other.field).IsZero() {
			return false
		}
	}
	with := b.companions(o)
	return len(with) == 0 || !v.FieldByIndex(with[0].field).IsZero() || b.lacksName(v, with[0])
}

// saneRelations checks the groups of a declaration. Of a group with a file, all may be missing.
func (b *block) saneRelations(path string, v reflect.Value) error {
	for _, g := range b.groups {
		var found []string
		for _, o := range g.options {
			if !v.FieldByIndex(o.field).IsZero() {
				found = append(found, o.key)
			}
		}
		switch {
		case len(found) == 0 && g.any:
			return fmt.Errorf("%s has %s", path, g.neither())
		case len(found) > 1 && !g.any:
			return fmt.Errorf("%s has both %s and %s", path, found[0], found[1])
		}
	}
	return nil
}

// setFiles sets the files of a declaration whose names it lacks: to those of local or, if that is
// nil, to names in capitals.
func (s *Sale) setFiles(local *Sale) {
	known := map[string]reflect.Value{}
	if local != nil {
		root().visit("", reflect.ValueOf(*local), func(path string, _ *block, o *option, of reflect.Value) {
			if o != nil && of.IsValid() {
				known[path] = o.value(of)
			}
		})
	}
	root().visit("", reflect.ValueOf(s).Elem(), func(path string, b *block, o *option, of reflect.Value) {
		if o == nil || !of.IsValid() || !b.lacksName(of, o) {
			return
		}
		name, is := known[path]
		switch field := o.value(of); {
		case is:
			field.Set(name)
		case local != nil:
		case field.Kind() == reflect.Slice:
			field.Set(reflect.Append(field, reflect.ValueOf(o.unstored)))
		default:
			field.SetString(o.unstored)
		}
	})
}

// copyBlocks replaces the blocks of a struct, and those below, by copies.
func copyBlocks(v reflect.Value) {
	for _, field := range v.Fields() {
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			block := reflect.New(field.Type().Elem())
			block.Elem().Set(field.Elem())
			field.Set(block)
			copyBlocks(block.Elem())
		}
	}
}
