"""Authors and their books."""

from django.db import models


class Author(models.Model):
    name = models.CharField(max_length=60, unique=True)
    born = models.DateField(null=True, blank=True)
    active = models.BooleanField(default=True)
    code = models.UUIDField(null=True, blank=True)

    def __str__(self):
        return self.name


class Book(models.Model):
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    title = models.CharField(max_length=80)
    price = models.DecimalField(max_digits=8, decimal_places=2, null=True, blank=True)
    stock = models.IntegerField(default=0)
    added = models.DateTimeField(null=True, blank=True)
    notes = models.TextField(null=True, blank=True)
    extra = models.JSONField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["price"], name="book_price")]

    def __str__(self):
        return self.title
