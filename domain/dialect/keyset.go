package dialect

// keySetSmall is how many names are kept without a map; real bodies have fewer than thirty.
const keySetSmall = 32

// keySet remembers the member names of one object. A filter of 64 bits spares nearly all comparisons; many names go
// into a map, so that a hostile body costs linear time. The zero value is empty. Names must stay unchanged.
type keySet struct {
	filter uint64
	n      int
	small  [keySetSmall][]byte
	many   map[string]struct{}
}

// add takes a name in; false says that it was there already.
func (s *keySet) add(name []byte) bool {
	h := uint(len(name)) * 7
	if len(name) > 0 {
		h += uint(name[0])*31 + uint(name[len(name)-1])
	}
	bit := uint64(1) << (h & 63)
	if s.many != nil {
		if _, there := s.many[string(name)]; there {
			return false
		}
		s.many[string(name)] = struct{}{}
		return true
	}
	if s.filter&bit != 0 {
		for _, other := range s.small[:s.n] {
			if string(other) == string(name) {
				return false
			}
		}
	}
	s.filter |= bit
	if s.n < keySetSmall {
		s.small[s.n] = name
		s.n++
		return true
	}
	s.many = make(map[string]struct{}, 4*keySetSmall)
	for _, other := range s.small {
		s.many[string(other)] = struct{}{}
	}
	s.many[string(name)] = struct{}{}
	return true
}
