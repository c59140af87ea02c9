"""lxml: parsing, paths, stylesheets that call Python, targets."""
from lxml import etree

DOCUMENT = "<list>" + "".join(
    f"<item n='{number}'><name>x{number}</name></item>"
    for number in range(3000)) + "</list>"
STYLE = """<xsl:stylesheet version="1.0" xmlns:f="urn:f"
  xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:template match="/"><all><xsl:for-each select="//item">
    <one><xsl:value-of select="f:twice(name)"/></one>
  </xsl:for-each></all></xsl:template></xsl:stylesheet>"""


def twice(context, nodes):
    return nodes[0].text * 2


class Target:
    count = 0

    def start(self, tag, attributes):
        self.count += len(attributes)

    def close(self):
        return self.count


def main():
    etree.FunctionNamespace("urn:f")["twice"] = twice
    transform = etree.XSLT(etree.fromstring(STYLE))
    for _ in range(250):
        tree = etree.fromstring(DOCUMENT)
        tree.xpath("//item[@n mod 7 = 0]/name/text()")
        etree.tostring(transform(tree))
        etree.fromstring(DOCUMENT, etree.XMLParser(target=Target()))


main()
