"""The evidence browser: a read-only web application over the lake. Text of documents and models is data
and is escaped.
"""
