package dialect

// DropReasoning appends a body of the Responses dialect to dst without the reasoning items that carry ciphertext of
// the account that wrote them: another account would refuse them (wire: invalid_encrypted_content). A body without
// such items, and one that is no valid request, is appended as it is.
func DropReasoning(dst, body []byte) []byte {
	start := len(dst)
	c := cursor{b: body}
	if c.peek() != '{' {
		return append(dst, body...)
	}
	from := 0
	for key := range c.members() {
		if string(key) != "input" || c.peek() != '[' {
			c.skip()
			continue
		}
		c.array()
		dst = append(dst, body[from:c.i]...)
		for kept := 0; c.element(); {
			c.peek()
			at := c.i
			if c.foreign() {
				continue
			}
			if kept++; kept > 1 {
				dst = append(dst, ',')
			}
			dst = append(dst, body[at:c.i]...)
		}
		from = max(c.i-1, 0) // the closing bracket, unless the text is bad
	}
	if !c.end() {
		return append(dst[:start], body...)
	}
	return append(dst, body[from:]...)
}

// foreign steps over one item and says whether it is reasoning with ciphertext.
func (c *cursor) foreign() bool {
	reasoning, secret := false, false
	for key := range c.members() {
		raw := c.raw()
		switch string(key) {
		case "type":
			reasoning = string(raw) == "reasoning"
		case "encrypted_content":
			secret = len(raw) > 0
		}
	}
	return reasoning && secret
}
